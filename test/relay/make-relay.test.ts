import t from 'tap'
import { silentObserver } from '../../src/relay/relay.ts'
import { relayLimits, relayOptions } from '../../src/cli/relay-limits.ts'
import { parseOptions } from '../../src/config/parse.ts'
import type { Log, LogFields } from '../../src/observe/log.ts'
import { logRelay } from '../../src/proxy/traffic.ts'
import {
  type ChosenRelay,
  makeRelay,
  type RelayDeps,
} from '../../src/relay/make-relay.ts'
import { systemClock } from '../../src/util/clock.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'

const sidecar = (...args: string[]) =>
  parseOptions('sidecar', ['--route=tcp://127.0.0.1:1=127.0.0.1:2', ...args])

const optionsOf = (options: ReturnType<typeof sidecar>) => ({
  limits: relayLimits(options),
  ...relayOptions(options),
})

/** What was logged: level, fields, message. */
const recorder = () => {
  const said: (readonly [string, LogFields, string])[] = []
  const at =
    (level: string) =>
    (fields: LogFields, message: string): void =>
      void said.push([level, fields, message])
  const log = { info: at('info'), warn: at('warn') } as unknown as Log
  return { log, said }
}

const portable: ChosenRelay = {
  name: 'portable',
  detail: 'runs wherever Node does',
  passedOver: [{ name: 'linux', detail: 'splice is refused with ENOSYS' }],
  workers: 1,
}

t.test('one line says which relay it is, and why', async t => {
  const { log, said } = recorder()
  logRelay(log, portable, optionsOf(sidecar()))
  logRelay(
    log,
    {
      ...portable,
      name: 'linux',
      detail: 'as told',
      passedOver: [],
      workers: 2,
      ownProcess: {
        privileges: { uid: 65_532, capabilities: 1n << 10n, noNewPrivileges: true },
        excess: '',
      },
    },
    optionsOf(sidecar('--tcp-user-timeout=3s')),
  )
  t.strictSame(said, [
    [
      'info',
      {
        relay: 'portable',
        detail: 'runs wherever Node does',
        passedOver: { linux: 'splice is refused with ENOSYS' },
        lacks:
          'when it is killed, its connections end in order and not by a reset: a cut answer may look whole',
      },
      'relay selected',
    ],
    [
      'info',
      {
        relay: 'linux',
        workers: 2,
        ownProcess: 'user 65532 with CAP_NET_BIND_SERVICE only',
        detail: 'as told',
      },
      'relay selected',
    ],
  ])
})

t.test('flags that the portable relay does not have are named', async t => {
  const { log, said } = recorder()
  const flags = [
    '--relay-workers=2',
    '--tcp-user-timeout=3s',
    '--tcp-keepalive-interval=2s',
    '--tcp-keepalive-probes=3',
  ]
  logRelay(log, portable, optionsOf(sidecar(...flags)))
  t.strictSame(said[1], [
    'warn',
    {
      flags: [
        'relay-workers',
        'tcp-keepalive-interval',
        'tcp-keepalive-probes',
        'tcp-user-timeout',
      ],
    },
    'flags without effect: only the linux relay supports them',
  ])
})

t.test('limits and relay are what the flags say', async t => {
  const options = sidecar('--relay=portable', '--relay-workers=3', '--tcp-keepalive=0')
  t.match(relayLimits(options), {
    tcpKeepalive: 0,
    tcpKeepaliveInterval: 1000,
    tcpKeepaliveProbes: 10,
    tcpUserTimeout: 0,
  })
  t.strictSame(relayOptions(options), {
    relay: 'portable',
    relayWorkers: 3,
  })
  t.equal(relayLimits(parseOptions('demo', [])).tcpKeepalive, 15_000)
})

t.test('privileges that should have gone are told', async t => {
  const { log, said } = recorder()
  const ownProcess = {
    privileges: { uid: 0, capabilities: 0b11n, noNewPrivileges: false },
    excess: 'setpriv is not installed',
  }
  logRelay(log, { ...portable, ownProcess }, optionsOf(sidecar()))
  t.match(said, [
    ['info', { ownProcess: 'root with 2 capabilities' }, 'relay selected'],
    ['warn', { why: 'setpriv is not installed' }, /privileges it does not need/],
  ])
})

const deps = (workers: number): RelayDeps => ({
  clock: systemClock,
  limits: relayLimits(sidecar()),
  observer: silentObserver,
  openFileLimit: 1000,
  workers,
})

t.test('the portable relay has one thread, whatever is wished', async t => {
  const { relay, choice } = await makeRelay('portable', deps(3))
  t.match(choice, { name: 'portable', workers: 1, passedOver: [] })
  t.teardown(() => relay.drain(0))
  t.equal((await relay.stats()).workers, undefined)
})

t.test('auto takes linux here', { skip: linuxRelaySkip() }, async t => {
  const { relay, choice } = await makeRelay('auto', deps(2))
  t.teardown(() => relay.drain(0))
  t.match(choice, { name: 'linux', workers: 2, passedOver: [] })
})

t.test(
  'where the linux relay does not work, auto falls back and linux is refused',
  { skip: linuxRelaySkip() === false && 'it works here' },
  async t => {
    const { choice } = await makeRelay('auto', deps(0))
    t.match(choice, { name: 'portable', passedOver: [{ name: 'linux', detail: /./ }] })
    await t.rejects(makeRelay('linux', deps(0)), /^--relay linux does not work here: /)
  },
)
