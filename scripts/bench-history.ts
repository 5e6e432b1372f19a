import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { comparisonOf } from '../bench/record/compare.ts'
import { parseRecord, type ScenarioRecord } from '../bench/record/record.ts'

/**
 * `npm run bench:history [-- --rounds 15]`: what a connection and a request cost beside an old build of Usher, and
 * beside HAProxy. Adds a line to bench/history.md: steps that are each within the noise add up. Two cores of
 * a quiet machine, haproxy and the history of git are needed; four minutes.
 */
const reference = '3d86a44'
const history = 'bench/history.md'
const scenarios = ['connections', 'requests-32'] as const

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '15' } } })
const run = (program: string, args: readonly string[], cwd = '.'): void =>
  void execFileSync(program, args, { cwd, stdio: 'inherit' })
const git = (...args: string[]): string =>
  execFileSync('git', args, { encoding: 'utf8' }).trim()

/** CPU time of the proxy beside that of `target`. */
const ratio = (scenario: ScenarioRecord | undefined, target: string): string => {
  const cost = { name: 'cost', better: 'lower' } as const
  const found = scenario && comparisonOf(scenario, cost, 'usher', target)
  if (found === undefined) return '-'
  const [median, min, max] = [found.median, found.min, found.max].map(one =>
    one.toFixed(2),
  )
  return `${median} (${min} to ${max})`
}

const changed = git('status', '--porcelain', '--', 'src') === '' ? '' : ' and more'
const commit = git('rev-parse', '--short', 'HEAD') + changed
const work = mkdtempSync(join(tmpdir(), 'usher-history-'))
const old = join(work, reference)
try {
  run('git', ['worktree', 'add', '--detach', old, reference])
  symlinkSync(join(process.cwd(), 'node_modules'), join(old, 'node_modules'))
  run('npx', ['tsc', '-p', 'tsconfig.build.json'], old)
  const results = join(work, 'results')
  const flags = ['--targets', 'usher,haproxy', '--only', scenarios.join(',')]
  const baseline = ['--baseline', `node ${join(old, 'dist/cli/main.js')}`]
  const length = ['--pin', '--rounds', values.rounds, '--seconds', '2']
  const output = ['--output', results]
  run('node', ['dist/usher.js', 'bench', ...flags, ...baseline, ...length, ...output])
  const json = readdirSync(results).find(name => name.endsWith('.json')) ?? ''
  const record = parseRecord(readFileSync(join(results, json), 'utf8'), json)
  const ratios = scenarios.flatMap(scenario => {
    const found = record.scenarios.find(({ name }) => name === scenario)
    return ['baseline', 'haproxy'].map(target => ratio(found, target))
  })
  const day = new Date().toISOString().slice(0, 10)
  const cells = [day, commit, ...ratios, cpus()[0]?.model ?? '']
  if (!existsSync(history)) throw new Error(`${history} is not here`)
  appendFileSync(history, `| ${cells.join(' | ')} |\n`)
  console.log(`\n${cells.join(' | ')}\nAdded to ${history}`)
} finally {
  rmSync(work, { recursive: true, force: true })
  git('worktree', 'prune')
}
