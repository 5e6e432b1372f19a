#!/usr/bin/env node
import { main } from './dispatch.ts'
import { processIo } from './io.ts'
import { surviveOutputErrors } from './output-errors.ts'

surviveOutputErrors()
// Not process.exit: output that is still on its way to a pipe would be cut off.
process.exitCode = await main(process.argv.slice(2), processIo())
