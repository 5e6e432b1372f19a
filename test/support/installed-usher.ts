import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { version } from '../../src/cli/version.ts'
import { top } from './deploy.ts'
import { missingPrograms } from './installed.ts'
import { freeTcpPort, testHost } from './ports.ts'
import { firstWord, namedBackend } from './tcp-backend.ts'
import { startInstalled } from './usher.ts'

/** A command of an Usher that is installed, to its end. Rejects when it fails. */
export const runInstalled = async (
  program: readonly string[],
  ...args: string[]
): Promise<string> => {
  const [command = '', ...before] = program
  const { stdout } = await promisify(execFile)(command, [...before, ...args], {
    env: { PATH: process.env['PATH'] },
    timeout: 60_000,
  })
  return stdout
}

/**
 * Its addresses are always the same, and another demo may be running on this host, in another test or
 * for somebody.
 */
const ownNetwork =
  process.getuid?.() === 0 && missingPrograms('unshare', 'ip') === ''
    ? ['unshare', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
    : []

/**
 * What an Usher has to do wherever it is installed: say its version, play the demo, and as a sidecar lead past
 * an endpoint that is dead.
 *
 * @param program the command line that starts it.
 */
export const worksInstalled = async (
  t: Test,
  program: readonly string[],
): Promise<void> => {
  t.equal(await runInstalled(program, '--version'), `usher ${version()}\n`)
  const demo = [...ownNetwork, ...program]
  t.match(await runInstalled(demo, 'demo', '--once'), /✔ all \d+ expectations are met/)
  const [listen, dead] = [await freeTcpPort(), await freeTcpPort()]
  const { endpoint } = await namedBackend(t, 'alive')
  const route = `tcp://${testHost}:${listen}=${testHost}:${dead},${endpoint.key}`
  const usher = await startInstalled(t, program, 'sidecar', `--route=${route}`)
  for (const request of ['first', 'second', 'third'])
    t.equal(await firstWord(listen), 'alive', `the ${request} is answered`)
  const { relay, servicePorts } = await usher.status()
  t.match(servicePorts, [{ accepted: 3, failed: 0 }])
  if (existsSync(`${top}node_modules/koffi`))
    t.equal(relay?.name, 'linux', 'and koffi is found')
  usher.send('SIGTERM')
  t.match(await usher.exit, { code: 0 })
}
