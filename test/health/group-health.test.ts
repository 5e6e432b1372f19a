import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { usualRules } from '../../src/health/check.ts'
import { GroupHealth } from '../../src/health/group-health.ts'
import { systemClock } from '../../src/util/clock.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { tcpBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'

const option = { check: { type: 'tcp' }, rules: usualRules } as const

t.test(
  'groups of one name share the checks, and each knows when all are down',
  async t => {
    const { endpoint, ...server } = await tcpBackend(t, socket => void socket.end())
    const here = { address: testHost, port: endpoint.port, host: '' }
    const refusing = { address: testHost, port: await freeTcpPort(), host: '' }
    const turns: string[] = []
    const health = new GroupHealth({
      clock: systemClock,
      turned: turn => void turns.push(`${turn.group} ${turn.endpoint} ${turn.up}`),
    })
    t.teardown(() => health.close())
    let accepted = 0
    server.server.on('connection', () => (accepted += 1))
    const both = { name: 'default/web', option, endpoints: [here, refusing] }
    const one = { name: 'default/web', option, endpoints: [refusing] }
    health.watch([both, one, both])
    await until('one is down', () => turns.length > 0)
    await until('the other is asked', () => accepted > 0)
    await sleep(200)
    t.equal(accepted, 1)
    t.strictSame(turns, [`default/web ${testHost}:${refusing.port} false`])
    t.strictSame([here, refusing].map(health.downOf(both)), [false, true])
    t.strictSame([refusing].map(health.downOf(one)), [false], 'all are, so none is')

    health.watch([])
    t.strictSame([here, refusing].map(health.downOf(both)), [false, false])
  },
)
