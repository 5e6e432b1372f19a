// A program like the bench: `KIND UNIQUE JOB` runs itself once more in a sandbox,
// where it does JOB and prints lines of JSON. UNIQUE only marks its processes.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import {
  isToBePrepared,
  prepareSandbox,
  runInSandbox,
  type Sandbox,
  type SandboxKind,
} from '../../../bench/sandbox/sandbox.ts'
import { namespaces } from '../../../bench/topology/namespaces.ts'
import { findFacts } from './facts.ts'

const [kind = '', unique = '', job = ''] = process.argv.slice(2)
const self = [process.execPath, ...process.execArgv, fileURLToPath(import.meta.url)]
const say = (line: unknown): void => console.log(JSON.stringify(line))
const forever = (): void => void setInterval(() => undefined, 60_000)

/** A topology with a lane, and a process in the client's place. */
const hold = async (sandbox: Sandbox): Promise<void> => {
  const { client, lane } = await namespaces(sandbox).then(topology => ({
    client: topology.client,
    lane: () => topology.lane(),
  }))
  await lane()
  const [command = '', ...args] = client.enter
  spawn(command, [...args, process.execPath, '-e', 'setInterval(() => 1, 1e6)', unique])
}

const jobs: Readonly<Record<string, (sandbox: Sandbox) => Promise<void>>> = {
  facts: async sandbox => say(await findFacts(sandbox)),
  hold: async sandbox => {
    await hold(sandbox)
    say('ready')
    forever()
  },
  handle: async () => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.on(signal, () => say(signal))
    process.once('SIGINT', () => setTimeout(() => process.exit(7), 200))
    say('ready')
    forever()
  },
  wait: async () => {
    say('ready')
    forever()
  },
}

if (process.env['TRY_PREPARE'] !== undefined) {
  const why = await prepareSandbox().catch((error: Error) => error.message)
  say(why)
} else if (isToBePrepared()) {
  // Time for a signal to come too early.
  if (job === 'late') {
    say('started')
    await new Promise(resolve => setTimeout(resolve, 300))
  }
  const sandbox = await prepareSandbox()
  await (jobs[job] ?? (async () => forever()))(sandbox)
} else {
  process.exitCode = await runInSandbox(kind as SandboxKind, [...self, kind, unique, job])
}
