import { createWriteStream, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { parseArgs } from 'node:util'
import { chooseTestSandbox } from './tests/test-sandbox.ts'
import { type FileResult, runTestFile } from './tests/run-test-file.ts'
import { sumLine, textOfFile, textOfRun } from './tests/texts.ts'

/**
 * `npm test`: each test file in a process of its own, a line for each as it ends, what failed
 * in full, and the sum at the end. What all of them said is in the report. Exits with 1 when
 * something failed, or nothing was run.
 *
 *   npm test -- [--jobs 3] [--timeout 180] [--node PROGRAM] [--report FILE] [FILE...]
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: 'string', default: '3' },
    timeout: { type: 'string', default: '180' },
    node: { type: 'string', default: process.execPath },
    report: { type: 'string', default: '.tap/report.tap' },
  },
})

const allFiles = (): readonly string[] =>
  readdirSync('test', { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.test.ts'))
    .map(name => `test/${name}`)
    .toSorted()

const [jobs, timeoutS] = [Number(values.jobs), Number(values.timeout)]

const refuse = (why: string): never => {
  console.error(why)
  process.exit(1)
}
if (!Number.isInteger(jobs) || jobs < 1 || !(timeoutS > 0))
  refuse('--jobs has to be a whole number above zero, and --timeout seconds')
const missing = positionals.filter(file => !existsSync(file))
if (missing.length > 0) refuse(`no such test file: ${missing.join(', ')}`)
const files = positionals.length > 0 ? positionals : allFiles()

const { sandbox, why } = await chooseTestSandbox()
if (why !== '')
  console.log(
    `Without a sandbox (${why}): a test that is ended may leave something behind.`,
  )
mkdirSync(dirname(values.report), { recursive: true })
const report = createWriteStream(values.report)
const results: FileResult[] = []
const waiting = [...files]
const next = async (): Promise<void> => {
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
    const request = { file, node: values.node, sandbox, timeoutMs: timeoutS * 1000 }
    const result = await runTestFile(request)
    results.push(result)
    report.write(`# File: ${file}\n${result.output}\n`)
    console.log(textOfFile(result))
  }
}
const began = performance.now()
await Promise.all(Array.from({ length: Math.min(jobs, files.length) }, next))
console.log(textOfRun(results, (performance.now() - began) / 1000, values.report))
const { line, ok } = sumLine(results)
report.end(`${line}\n`)
console.log(line)
process.exitCode = ok ? 0 : 1
