import { parseBool } from './go-bool.ts'
import { badValue, value, type Value } from './value.ts'

/** `Name=true,Other=false`, as kube-proxy's --feature-gates; may be given several times. */
export const featureGates: Value<Readonly<Record<string, boolean>>> = value(
  'NAME=BOOL,...',
  text => {
    const gates = new Map<string, boolean>()
    for (const part of text.split(',').map(each => each.trim())) {
      if (part === '') continue
      const [name = '', given] = part.split('=', 2).map(each => each.trim())
      const on = given === undefined ? undefined : parseBool(given)
      if (name === '' || on === undefined)
        throw badValue(
          part,
          'is not a feature gate',
          'give it as NAME=true or NAME=false',
        )
      gates.set(name, on)
    }
    return Object.fromEntries(gates)
  },
)
