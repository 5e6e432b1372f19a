#!/usr/bin/env node
import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net'
import { main } from './dispatch.ts'
import { processIo } from './io.ts'

// Of a name with several addresses each is tried for so long before the next: Node's own 250 ms are
// less than a slow link takes, and all fail.
setDefaultAutoSelectFamilyAttemptTimeout(3000)

const code = await main(process.argv.slice(2), processIo())
// Not process.exit: output that is still on its way to a pipe would be cut off.
process.exitCode = code || process.exitCode
// All is done. What can't be ended (a connection through a proxy that does not answer:
// agent-base has no abort) must not hold up the end until a SIGKILL.
setTimeout(() => process.exit(), 2000).unref()
