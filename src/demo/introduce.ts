import type { VipStatus } from '../observe/status.ts'
import type { Backend } from './backends.ts'
import type { PlannedBackend } from './plan.ts'
import type { Screen } from './screen.ts'
import { servicePortOf, targetOf, textOfTarget, type Stage } from './stage.ts'

const vipText = ({ vip, listen }: VipStatus): string =>
  vip === listen ? vip : `${vip}, dial ${listen}`

/** Every Service with its address and what stands behind it. */
export const showServices = (
  screen: Screen,
  stage: Stage,
  running: readonly Backend[],
): void => {
  const shown = new Map<string, readonly PlannedBackend[]>()
  for (const one of stage.backends) {
    const key = `${one.service} ${one.protocol}`
    shown.set(key, [...(shown.get(key) ?? []), one])
  }
  for (const [first, ...others] of shown.values()) {
    if (!first) continue
    const { service, protocol } = first
    const { vips } = servicePortOf(stage, service, protocol)
    const names = [first, ...others].map(({ name, dead }) => {
      const pid = running.find(r => r.name === name && r.protocol === protocol)?.pid
      return dead ? `${name} (dead)` : `${name} (pid ${pid ?? '?'})`
    })
    screen.row(service, `${protocol} ${vips.map(vipText).join(', ')}`, 6)
    screen.quiet(`          → ${names.join(', ')}`)
  }
}

interface Addresses {
  readonly stage: Pick<Stage, 'status'>
  readonly running: readonly Backend[]
  /** `ip:port`; '' when it is off. */
  readonly metrics: string
  /** How this Usher is called: `usher`, `node dist/cli/main.js`. */
  readonly usher: string
}

/** What a newcomer can type now. */
export const showWhatToType = (screen: Screen, from: Addresses): void => {
  const { stage, running, metrics, usher } = from
  const victim = running.find(one => one.name === 'web-2') ?? running[0]
  const web = textOfTarget(targetOf(stage, 'web'))
  const sticky = textOfTarget(targetOf(stage, 'sticky'))
  const rows: readonly (readonly [command: string, meaning: string])[] = [
    ...(metrics === ''
      ? []
      : [[`http://${metrics}/`, 'in a browser: all of it, live'] as const]),
    [`curl http://${web}`, "a backend, by turns with the demo's own clients"],
    [`curl http://${sticky}`, 'always the same backend'],
    ...(victim?.pid === undefined
      ? []
      : [[`kill ${victim.pid}`, `ends ${victim.name}: no request fails`] as const]),
    ...(metrics === ''
      ? []
      : ([
          [`${usher} status --address ${metrics}`, 'what Usher knows and does'],
          [`curl http://${metrics}/metrics`, 'the same for Prometheus'],
        ] as const)),
    ['Ctrl-C', 'here, ends the demo'],
  ]
  const width = Math.max(...rows.map(([command]) => command.length))
  screen.line()
  screen.heading(
    'Your turn. All of this keeps running; open, or type in another terminal,',
  )
  for (const [command, meaning] of rows) screen.row(command, meaning, width)
  screen.line()
}
