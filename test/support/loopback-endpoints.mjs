// What stands for pods in these tests is on loopback, where no API server would have it.
// Loaded into an Usher by --import, this takes the place of the one module that knows, for the one
// that asks it of endpoints.
import { register } from 'node:module'

const noRange = "data:text/javascript,export const specialRange = () => ''"
const hooks = `export const resolve = (name, context, next) =>
  name.endsWith('/special-address.js') &&
  context.parentURL?.endsWith('/source/decode/endpoint-slice.js')
    ? { url: ${JSON.stringify(noRange)}, format: 'module', shortCircuit: true }
    : next(name, context)`

register(`data:text/javascript,${encodeURIComponent(hooks)}`)
