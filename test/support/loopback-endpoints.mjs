// What stands for pods in these tests is on loopback, where no API server would have it.
// Loaded into an Usher by --import, this takes the place of the one module that knows.
import { register } from 'node:module'

const hooks = `export const load = (url, context, next) =>
  url.endsWith('/util/special-address.js')
    ? { format: 'module', shortCircuit: true, source: "export const specialRange = () => ''" }
    : next(url, context)`

register(`data:text/javascript,${encodeURIComponent(hooks)}`)
