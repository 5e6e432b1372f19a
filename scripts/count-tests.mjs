// Prints "N passed, N failed, N skipped" from the TAP that `npm test` wrote: assertions of
// all depths are counted by tap itself in its last comment. Fails when none were run.
import { readFileSync } from 'node:fs'

const tap = readFileSync(process.argv[2], 'utf8')
const line = tap.match(/^# \{ total: .* \}$/m)?.[0] ?? ''
const count = name => Number(line.match(new RegExp(`\\b${name}: (\\d+)`))?.[1] ?? 0)
const [passed, failed, skipped] = [count('pass'), count('fail'), count('skip')]
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`)
process.exitCode = passed > 0 && failed === 0 ? 0 : 1
