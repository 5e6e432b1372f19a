import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import { until } from '../support/until.ts'
import { type ConsoleStep, consoleSteps } from './console-blocks.ts'

export const pageOf = (name: string): string =>
  readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8')

/** Why no page can be walked through here; false when they can. */
export const walkProblem =
  process.getuid?.() !== 0 && 'needs root, for a network and processes of its own'

/** Everything that is started in them ends with them. */
const ownProcesses = ['--pid', '--fork', '--kill-child', '--mount-proc']

export interface Walk {
  /** What `usher` is: the arguments of Node before a command's own. */
  readonly usher: readonly string[]
  /** Files beside those that the page shows, by their names. */
  readonly files?: Readonly<Record<string, string>>
  /** Reaches servers of the test; else it has a network of its own, and no address or rule is left. */
  readonly sharesNetwork?: boolean
}

/**
 * Does what a page says, in its order, in one shell: writes the files that it shows (`web.yaml`:
 * before a block of YAML) and runs its blocks of language `console`. What is printed has to be what
 * the page says, where a line `...` stands for any lines and `…` for any part of a line.
 */
export const walkPage = async (t: Test, page: string, walk: Walk): Promise<void> => {
  const directory = t.testdir({ ...filesOf(page), ...walk.files })
  const shell = startShell(t, directory, walk)
  const steps = consoleSteps(page)
  t.ok(steps.length > 0)
  for (const step of steps) await takeStep(t, shell, directory, step)
}

const filesOf = (page: string): Record<string, string> =>
  Object.fromEntries(
    [...page.matchAll(/`([\w.-]+\.yaml)`:\n\n```yaml\n([^]*?)```/g)].map(
      ([, name = '', text = '']) => [name, text],
    ),
  )

/** Runs a command line, and gives what it has printed when it ends. */
type Shell = (line: string) => Promise<string>

const startShell = (
  t: Test,
  directory: string,
  { usher, sharesNetwork = false }: Walk,
): Shell => {
  const bin = `${directory}/bin`
  mkdirSync(bin)
  const program = [process.execPath, ...usher].map(word => `'${word}'`).join(' ')
  writeFileSync(`${bin}/usher`, `#!/bin/sh\nexec ${program} "$@"\n`, { mode: 0o755 })
  const { PATH = '' } = process.env
  const network = sharesNetwork ? [] : ['--net']
  const child = spawn('unshare', [...network, ...ownProcesses, 'bash'], {
    cwd: directory,
    env: { PATH: `${bin}:${PATH}`, HOME: directory },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.teardown(async () => {
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  })
  const lines: string[] = []
  createInterface(child.stdout).on('line', line => lines.push(line))
  child.stdin.write('exec 2>&1; ip link set lo up\n')
  let calls = 0
  return async line => {
    const mark = `-- end of ${(calls += 1)}`
    child.stdin.write(`${line}\necho '${mark}'\n`)
    await until(`"${line}" ends`, () => lines.includes(mark), 60_000)
    const printed = lines.splice(0, lines.indexOf(mark) + 1).slice(0, -1)
    return printed.map(each => `${each}\n`).join('')
  }
}

const takeStep = async (
  t: Test,
  shell: Shell,
  directory: string,
  { line, printed }: ConsoleStep,
): Promise<void> => {
  t.match(await shell(line), asPattern(printed), line)
  // A reader has seen that before he goes on.
  const [, log] = /^usher (?:run|sidecar).* >(\S+) 2>&1 &$/.exec(line) ?? []
  if (log === undefined) return
  const path = `${directory}/${log}`
  const said = (): string => (existsSync(path) ? readFileSync(path, 'utf8') : '')
  await until(`${line} serves`, () => /"msg":"serving"|^usher: /m.test(said()))
  t.match(said(), '"msg":"serving"', line)
}

/** `...` as a line stands for any lines, `…` for any part of one; spaces are as many as there are. */
const asPattern = (printed: string): RegExp => {
  const lines = printed.split('\n').slice(0, -1)
  const parts = lines.map(line =>
    line === '...'
      ? '(?:.*\\n)*'
      : `${line
          .trimEnd()
          .split('…')
          .map(part => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
          .join('.*')
          .replaceAll(/ +/g, ' +')} *\\n`,
  )
  return new RegExp(`^${parts.join('')}$`)
}
