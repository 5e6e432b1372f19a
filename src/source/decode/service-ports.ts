import { printable, show } from './printable.ts'
import type { Fault } from './problem.ts'
import type { RawPort } from './service-shape.ts'

/** Ports that can't be told apart, by name or by number and protocol. */
export const portFaults = (ports: readonly RawPort[]): Fault[] => {
  if (ports.length === 0)
    return [{ field: 'spec.ports', message: 'is empty; a Service needs a port' }]
  const faults: Fault[] = []
  const taken = new Map<string, string>()
  const claim = (field: string, what: string) => {
    const holder = taken.get(what)
    if (holder === undefined) taken.set(what, field)
    else faults.push({ field, message: `${what} is taken by ${holder}` })
  }
  for (const [i, { name, port, protocol, nodePort }] of ports.entries()) {
    const field = `spec.ports[${i}]`
    const carried = printable(protocol)
    if (name !== '') claim(`${field}.name`, `the name ${show(name)}`)
    else if (ports.length > 1)
      faults.push({
        field: `${field}.name`,
        message: 'is missing; with several ports each needs a name',
      })
    claim(`${field}.port`, `${carried} port ${port}`)
    if (nodePort !== 0) claim(`${field}.nodePort`, `${carried} node port ${nodePort}`)
  }
  return faults
}
