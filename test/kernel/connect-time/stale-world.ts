import type { Test } from 'tap'
import { Bpf } from '../../../src/kernel/bpf/bpf.ts'
import { noPins } from '../../../src/kernel/bpf/pins.ts'
import { endStaleUdp, servedUdp } from '../../../src/kernel/connect-time/udp-ends.ts'
import { tableDefinitions } from '../../../src/kernel/connect-time/tables.ts'
import { type RunTool, runTool } from '../../../src/kernel/run-tool.ts'
import type { ServicePort } from '../../../src/model/snapshot.ts'
import { makeGroup } from './group.ts'
import { changesTo, makeSteering } from './world.ts'

const nodeAddresses = ['192.0.2.1', '127.0.0.1']

/** Steering of a cgroup, whose sockets are ended as Services change. */
export const makeStaleStage = async (t: Test) => {
  const group = await makeGroup()
  const bpf = new Bpf()
  const open = new Map<string, number>()
  const steering = makeSteering(group.path, {
    bpf,
    pins: {
      ...noPins,
      open: (layout, name, make, found) => {
        const descriptor = noPins.open(layout, name, make, found)
        open.set(name, descriptor)
        return descriptor
      },
    },
  })
  t.teardown(() => steering.close())
  steering.attach()
  const definition = tableDefinitions({
    services: 100,
    slots: 100,
    members: 100,
    sockets: 1000,
  }).reverse
  const reverse = () => bpf.entries(open.get('table-reverse') ?? -1, definition)
  let now: readonly ServicePort[] = []
  const serve = async (...services: ServicePort[]): Promise<void> => {
    await steering.writer.write(changesTo(services, now))
    now = services
  }
  /** What the last change of Services asks for. */
  const end = (run: RunTool = runTool): Promise<readonly string[]> => {
    return endStaleUdp({ run, reverse }, servedUdp({ servicePorts: now, nodeAddresses }))
  }
  return { group, serve, end }
}
