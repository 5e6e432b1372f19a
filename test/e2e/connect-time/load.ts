import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import type { Stage } from './stage.ts'

export interface Connect {
  /** As of `now`. */
  readonly began: number
  readonly ended: number
  /** Which endpoint, or what went wrong. */
  readonly who: string
}

/** Milliseconds of a clock that all processes share. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6

const program = fileURLToPath(new URL('load-main.mjs', import.meta.url))

/** Begins to dial these VIPs (`address port`) all the time; what it gives ends that. */
export const beginLoad = async (
  t: Test,
  { group, node }: Pick<Stage, 'group' | 'node'>,
  vips: readonly string[],
  atOnce = 4,
): Promise<() => Promise<readonly Connect[]>> => {
  const line = [...group.prefix(node), process.execPath, program, String(atOnce), ...vips]
  const child = spawn(line[0] ?? '', line.slice(1), {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const closed = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await closed
  })
  await once(child.stdout, 'readable')
  return async () => {
    child.stdin.end()
    const [, json = ''] = (await text(child.stdout)).split('\n')
    return (JSON.parse(json) as [number, number, string][]).map(
      ([began, ended, who]) => ({ began, ended, who }),
    )
  }
}

/** Those that no endpoint has answered. */
export const failed = (connects: readonly Connect[]): readonly Connect[] =>
  connects.filter(({ who }) => !who.startsWith('127.'))
