import t from 'tap'
import type { ModeChoice } from '../../src/mode/fallback-mode.ts'
import type { Log, LogFields } from '../../src/observe/log.ts'
import {
  choiceText,
  fallBackText,
  isFallBack,
  modeWarning,
  logFallback,
  logMode,
} from '../../src/proxy/traffic.ts'

const recorder = () => {
  const said: [level: string, fields: LogFields, text: string][] = []
  const at = (level: string) => (fields: LogFields, text: string) =>
    void said.push([level, fields, text])
  const log: Log = {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    isLevelEnabled: () => true,
    child: () => log,
  }
  return { log, said }
}

const choice: ModeChoice = {
  mode: 'ipvs',
  by: '--proxy-mode',
  name: 'iptables',
  detail: 'iptables 1.8.9',
  passedOver: [{ name: 'ipvs', detail: 'kernel module ip_vs is missing' }],
}

t.test('another mode than the one asked for is a warning, and an Event', async t => {
  const { log, said } = recorder()
  logMode(log, choice)
  t.strictSame(said, [
    [
      'warn',
      {
        mode: 'iptables',
        askedBy: '--proxy-mode',
        detail: 'iptables 1.8.9',
        passedOver: { ipvs: 'kernel module ip_vs is missing' },
      },
      'Using iptables Proxier',
    ],
  ])
  t.ok(isFallBack(choice))
  t.equal(
    choiceText(choice),
    'ipvs mode was requested, iptables mode runs: ipvs: kernel module ip_vs is missing',
  )
})

t.test('the mode that was asked for, or the best when none was, is no news', async t => {
  const { log, said } = recorder()
  const asked: ModeChoice = { ...choice, mode: 'iptables', passedOver: [] }
  const best: ModeChoice = { ...choice, mode: '', by: '', name: 'userspace', detail: '' }
  for (const each of [asked, best]) {
    logMode(log, each)
    t.notOk(isFallBack(each))
  }
  t.strictSame(
    said.map(([level, , text]) => `${level} ${text}`),
    ['info Using iptables Proxier', 'info Using userspace Proxier'],
  )
  t.notOk(Object.hasOwn(said[1]?.[1] ?? {}, 'askedBy'))
})

t.test('a mode that is lost while it runs is an error, with the reason', async t => {
  const { log, said } = recorder()
  const change = { from: 'iptables', to: 'userspace', reason: 'no iptables' } as const
  logFallback(log, change)
  t.match(said, [
    [
      'error',
      { from: 'iptables', to: 'userspace', why: 'no iptables' },
      /Using userspace Proxier/,
    ],
  ])
  t.equal(
    fallBackText(change),
    'iptables mode no longer works, userspace mode runs: no iptables',
  )
})

t.test(
  'a default that will change, and ipvs, are warned of as by kube-proxy 1.37',
  async t => {
    const given = (
      mode: ModeChoice['mode'],
      name: ModeChoice['name'],
      by = '--proxy-mode',
    ) =>
      modeWarning({ ...choice, mode, by: mode === '' && by !== 'a flag' ? '' : by, name })
    t.match(given('', 'iptables'), { reason: 'KubeProxyDefaultMode', message: /1\.40/ })
    t.match(given('ipvs', 'ipvs'), { reason: 'IPVSDeprecation', message: /1\.43/ })
    t.equal(given('iptables', 'iptables'), undefined)
    t.equal(given('', 'userspace'), undefined)
    t.equal(given('ipvs', 'iptables'), undefined, 'a fallback has a warning of its own')
  },
)
