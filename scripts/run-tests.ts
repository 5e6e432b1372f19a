import { createWriteStream, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { parseArgs } from 'node:util'
import { compile } from './tests/compiled.mjs'
import { readKnownFailures, withoutKnown } from './tests/known-failures.ts'
import { packTap } from './tests/packed-tap.mjs'
import { processesOf } from './tests/processes.ts'
import { type FileResult, runTestProcess } from './tests/run-test-process.ts'
import { chooseTestSandbox } from './tests/test-sandbox.ts'
import { sumLine, textOfFile, textOfRun } from './tests/texts.ts'
import { packForTests } from './tests/pack-for-tests.ts'

/**
 * `npm test`: all test files, in few processes; a line for each file when its process ends, what
 * failed in full, and the sum at the end. What all of them said is in the report. Exits with 1
 * when something failed, or nothing was run.
 *
 *   npm test -- [--jobs 4] [--timeout 400] [--node PROGRAM] [--known FILE] [--report FILE]
 *     [FILE|FOLDER...]
 *
 * `--known` is a file of tests that fail with that Node, by their reasons: see known-failures.ts.
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: 'string', default: '4' },
    timeout: { type: 'string', default: '400' },
    node: { type: 'string', default: process.execPath },
    known: { type: 'string' },
    report: { type: 'string', default: '.tap/report.tap' },
  },
})
const [jobs, timeoutS] = [Number(values.jobs), Number(values.timeout)]

const refuse = (why: string): never => {
  console.error(why)
  process.exit(1)
}
if (!Number.isInteger(jobs) || jobs < 1 || !(timeoutS > 0))
  refuse('--jobs has to be a whole number above zero, and --timeout seconds')
const missing = positionals.filter(file => !existsSync(file))
if (missing.length > 0) refuse(`no such test file: ${missing.join(', ')}`)
const known = values.known === undefined ? {} : readKnownFailures(values.known)
const processes = processesOf(positionals.length > 0 ? positionals : ['test'])

// A run that a test of this one has started finds all of it there.
if (process.env['USHER_TEST_LOOPBACK'] === undefined) {
  const sources = ['src', 'bench', 'scripts', 'test'].flatMap(folder =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter(name => name.endsWith('.ts'))
      .map(name => `${folder}/${name}`),
  )
  await compile(sources)
  await packTap()
  Object.assign(process.env, await packForTests())
}
const { sandbox, why } = await chooseTestSandbox()
if (why !== '')
  console.log(
    `Without a sandbox (${why}): a test that is ended may leave something behind.`,
  )
mkdirSync(dirname(values.report), { recursive: true })
const report = createWriteStream(values.report)
const results: FileResult[] = []
const waiting = [...processes]
const next = async (): Promise<void> => {
  for (let files = waiting.shift(); files !== undefined; files = waiting.shift()) {
    const request = { files, node: values.node, sandbox, timeoutMs: timeoutS * 1000 }
    const result = await runTestProcess(request)
    const judged = result.files.map(file => withoutKnown(file, known))
    results.push(...judged)
    report.write(`${result.output}\n`)
    for (const file of judged) console.log(textOfFile(file))
  }
}
const began = performance.now()
await Promise.all(Array.from({ length: Math.min(jobs, processes.length) }, next))
console.log(textOfRun(results, (performance.now() - began) / 1000, values.report))
const { line, ok } = sumLine(results)
report.end(`${line}\n`)
console.log(line)
process.exitCode = ok ? 0 : 1
