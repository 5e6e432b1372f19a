// A process of its own: long.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { until } from '../support/until.ts'
import { typescript } from '../support/typescript.ts'

const reportOf = (t: Test): string => join(t.testdir({}), 'report.tap')
const pathOf = (name: string): string => `test/runner/files/${name}.ts`

interface Leaves {
  /** In the command lines of what it leaves. */
  readonly mark: string
  readonly fails: boolean
}

const start = (t: Test, args: readonly string[], leaves?: Leaves): ChildProcess => {
  const child = spawn(process.execPath, [typescript, 'scripts/run-tests.ts', ...args], {
    env: { ...process.env, USHER_TEST_LEAVES: JSON.stringify(leaves ?? {}) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

interface Run {
  readonly code: number | null
  readonly lines: readonly string[]
  readonly out: string
  readonly err: string
}

const textOf = async (stream: Readable | null): Promise<string> =>
  stream === null ? '' : text(stream)

const run = async (t: Test, ...args: string[]): Promise<Run> => {
  const child = start(t, args)
  const ended = new Promise<number | null>(resolve => child.once('exit', resolve))
  const [out, err] = await Promise.all([textOf(child.stdout), textOf(child.stderr)])
  return { code: await ended, out, err, lines: out.trimEnd().split('\n') }
}

t.jobs = 3

t.test('what failed is told in full, and the sum at the end', async t => {
  const report = reportOf(t)
  const files = ['fails', 'throws'].map(pathOf)
  const { code, out, lines } = await run(t, '--jobs=2', `--report=${report}`, ...files)
  t.equal(code, 1)
  t.equal(lines.at(-1), '1 passed, 2 failed, 1 skipped')
  t.match(
    out,
    /^FAILED test\/runner\/files\/fails\.ts +[\d.]+ s +1 passed, 1 failed, 1 skipped$/m,
  )
  t.match(out, /not ok: test\/runner\/files\/fails\.ts: outer > inner > this is not/)
  t.match(out, /-  "a": 2,\n +\+  "a": 1,/, 'expected and found')
  t.match(out, /at: test\/runner\/files\/fails\.ts:6:7/)
  t.match(out, /not ok: test\/runner\/files\/throws\.ts: .*thrown in a test/)
  t.match(out, /test\/runner\/files\/throws\.ts:4:9/)
  t.match(
    out,
    /^skipped in test\/runner\/files\/fails\.ts: there is no elsewhere \(1\)$/m,
  )
  const all = readFileSync(report, 'utf8')
  t.match(all, /^# File: test\/runner\/files\/throws\.ts$/m)
  t.match(all, /ok 1 - this is so/, 'the report has all')
})

t.test(
  'what is known to fail is skipped; what is said to fail and passes has failed',
  async t => {
    const file = pathOf('fails')
    const listed = async (t: Test, ...names: string[]) => {
      const known = JSON.stringify({ 'no elsewhere': { [file]: names } })
      const dir = t.testdir({ known })
      return run(t, `--known=${dir}/known`, `--report=${dir}/report.tap`, file)
    }
    await t.test('as listed', async t => {
      const { code, out, lines } = await listed(t, 'outer > inner')
      t.equal(code, 0)
      t.equal(lines.at(-1), '1 passed, 0 failed, 2 skipped')
      t.match(out, `skipped in ${file}: known to fail: no elsewhere (1)`)
    })
    await t.test('one more is listed', async t => {
      const { code, out, lines } = await listed(t, 'outer', 'outer > other')
      t.equal(code, 1)
      t.equal(lines.at(-1), '1 passed, 1 failed, 2 skipped')
      t.match(out, `not ok: ${file}: outer > other`)
      t.match(out, 'why: known to fail (no elsewhere), and has not')
    })
  },
)

t.test('one that hangs says where, and is ended', async t => {
  const args = ['--jobs=2', `--report=${reportOf(t)}`]
  const { code, out, lines } = await run(t, ...args, pathOf('hangs'), pathOf('spins'))
  t.equal(code, 1)
  t.match(out, /hangs\.ts: it waits > timeout!/)
  t.match(out, /not ok: test\/runner\/files\/hangs\.ts: its process: not done after 2 s/)
  t.match(out, /not ok: test\/runner\/files\/spins\.ts: its process: not done after 2 s/)
  t.match(lines.at(-1), /^1 passed, \d failed, 0 skipped$/)
})

t.test('one that crashes, or tests nothing, has failed', async t => {
  const args = ['--jobs=2', `--report=${reportOf(t)}`]
  const { code, out } = await run(t, ...args, pathOf('crashes'), pathOf('tests-nothing'))
  t.equal(code, 1)
  t.match(out, /not ok: test\/runner\/files\/crashes\.ts: its process: SIGABRT/)
  t.match(out, /on stderr:\n +its last words/)
  t.match(out, /not ok: test\/runner\/files\/tests-nothing\.ts: it tested nothing/)
})

const passing = "import t from 'tap'\nt.test('one', async t => t.ok(true))\n"
const group = {
  'a.test.ts': passing,
  'b.test.ts': `${passing}t.test('two', async () => process.abort())\n`,
  'c.test.ts': passing,
  'd.test.ts': `// A process of its own: it is apart.\n${passing}`,
}

t.test('files of a folder share a process, and each is said by name', async t => {
  // Not a fixture of tap: the sandbox of that run has other ones.
  const folder = mkdtempSync('.tap/group-')
  t.teardown(() => rmSync(folder, { recursive: true }))
  for (const [name, program] of Object.entries(group))
    writeFileSync(join(folder, name), program)
  const { code, out, lines } = await run(t, `--report=${reportOf(t)}`, folder)
  t.equal(code, 1)
  t.match(out, /^ok +\S+a\.test\.ts +[\d.]+ s +1 passed$/m)
  t.match(out, /not ok: \S+b\.test\.ts: its process: SIGABRT/)
  t.match(out, /not ok: \S+c\.test\.ts: never begun, after \S+b\.test\.ts$/m)
  t.match(out, /^ok +\S+d\.test\.ts +[\d.]+ s +1 passed$/m)
  t.equal(lines.at(-1), '3 passed, 2 failed, 0 skipped')
})

t.test('what is no test file is refused', async t => {
  const { code, out, err } = await run(t, pathOf('none'))
  t.equal(code, 1)
  t.equal(err, 'no such test file: test/runner/files/none.ts\n')
  t.equal(out, '')
})

/** Of all processes that are seen from here, by id, how they were started. */
const commandLines = (): ReadonlyMap<number, string> => {
  const lines = new Map<number, string>()
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name)))
    try {
      lines.set(Number(pid), readFileSync(`/proc/${pid}/cmdline`, 'utf8'))
    } catch {
      // It has ended meanwhile.
    }
  return lines
}

const startedWith = (word: string): readonly number[] =>
  Array.from(commandLines()).flatMap(([pid, line]) => (line.includes(word) ? [pid] : []))

const namespaces = (): readonly string[] =>
  existsSync('/run/netns')
    ? readdirSync('/run/netns').filter(name => name.includes('leaves-all'))
    : []

/** Who is to be killed; nobody where the file fails by itself. */
const victims = {
  'it fails': () => [],
  'it is killed': (mark: string) =>
    startedWith(pathOf('leaves-all')).filter(pid => isFileItself(pid, mark)),
  'its runner is killed': (_: string, runner: number) => [runner],
} as const

/** Not what stands before it in the command line, nor the runner. */
const isFileItself = (pid: number, mark: string): boolean => {
  const line = commandLines().get(pid) ?? ''
  if (!line.startsWith(process.execPath) || line.includes('run-tests')) return false
  return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(mark)
}

const why = await netnsProblem()

for (const [how, whom] of Object.entries(victims))
  t.test(`nothing outlives a test file: ${how}`, { skip: why !== '' && why }, async t => {
    const mark = `usher-leaves-${randomBytes(4).toString('hex')}`
    const report = reportOf(t)
    const args = ['--timeout=150', `--report=${report}`, pathOf('leaves-all')]
    const runner = start(t, args, { mark, fails: how === 'it fails' })
    const ended = new Promise(resolve => runner.once('exit', resolve))
    const said = textOf(runner.stdout)
    if (how !== 'it fails')
      await until('all of it is there', () => startedWith(mark).length >= 2, 90_000)
    for (const pid of whom(mark, runner.pid ?? 0)) process.kill(pid, 'SIGKILL')
    await ended
    await until('its processes are gone', () => startedWith(mark).length === 0)
    t.strictSame(namespaces(), [], 'no network namespace is left')
    if (how === 'its runner is killed') return
    const made = /made (.*)/.exec(await said)?.[1] ?? '[]'
    const paths = JSON.parse(made) as readonly string[]
    t.equal(paths.length, 2, await said)
    for (const path of paths) t.notOk(existsSync(path), `${path} is gone`)
  })
