import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import type { ServicePortStatus, StatusDocument } from '../../src/observe/status.ts'
import { testHost } from './ports.ts'
import { until } from './until.ts'
import { loopbackUsher, usherProgram } from './usher-program.ts'

export interface LogRecord {
  readonly level: string
  readonly msg: string
  readonly [field: string]: unknown
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** An Usher that was started, whether it serves or not. */
export interface LaunchedUsher {
  /** Of what `startUsherBy` was given, if anything. */
  readonly pid: number
  /** Its log so far. */
  readonly records: readonly LogRecord[]
  /** The first record with this message and these fields, waited for. */
  readonly logged: (msg: string | RegExp, fields?: object) => Promise<LogRecord>
  readonly send: (signal: NodeJS.Signals) => void
  readonly exit: Promise<Exit>
}

/** One that serves. */
export interface Usher extends LaunchedUsher {
  /** `host:port` of its two servers. */
  readonly metrics: string
  readonly healthz: string
  readonly status: () => Promise<StatusDocument>
  /** Of the ServicePort `default/NAME`. */
  readonly servicePort: (name: string) => Promise<ServicePortStatus>
}

/** Tests run as root on somebody's machine: no rule, address or route is to be left there. */
const harmless = [
  ['--proxy-mode', 'userspace'],
  ['--capture', 'listen'],
  // Nor a process.
  ['--orphan-timeout', '0'],
] as const

const unlessGiven = (args: readonly string[]): readonly string[] =>
  args[0] !== 'run'
    ? []
    : harmless.flatMap(([flag, value]) =>
        args.some(arg => arg.startsWith(flag)) ? [] : [`${flag}=${value}`],
      )

/** Starts a command that serves; killed when the test ends. */
export const launchUsher = (t: Test, ...args: string[]): LaunchedUsher => launch(t, args)

/** The same without a right to change the host. */
export const launchHarmless = (t: Test, ...args: string[]): LaunchedUsher =>
  launch(t, args, process.getuid?.() === 0 ? withoutCapabilities : [])

const withoutCapabilities = ['setpriv', '--bounding-set=-all', '--inh-caps=-all']

const launch = (
  t: Test,
  args: readonly string[],
  before: readonly string[] = [],
  program?: readonly string[],
): LaunchedUsher => {
  const addresses = ['metrics', 'healthz'].map(
    name => `--${name}-bind-address=${testHost}:0`,
  )
  const child = spawnUsher([...args, ...addresses], before, program)
  const exit = exitOf(child)
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exit
  })
  const records: LogRecord[] = []
  const errors = text(child.stderr)
  createInterface(child.stdout).on('line', line => {
    records.push(JSON.parse(line) as LogRecord)
  })
  let gone = false
  const died = exit.then(async () => {
    gone = true
    return errors
  })
  const logged = async (
    msg: string | RegExp,
    fields: object = {},
  ): Promise<LogRecord> => {
    const find = () => records.find(record => fits(record, msg, fields))
    await until(`the log says ${String(msg)}`, () => gone || find() !== undefined)
    const record = find()
    if (record === undefined) throw new Error(`never said ${msg}: ${await died}`)
    return record
  }
  return {
    pid: child.pid ?? 0,
    records,
    logged,
    send: signal => void child.kill(signal),
    exit,
  }
}

/** Started by another program, which is given the command line. */
export const launchUsherBy = (
  t: Test,
  before: readonly string[],
  ...args: string[]
): LaunchedUsher => launch(t, args, before)

/** The same, and waits until it serves. */
export const startUsherBy = (
  t: Test,
  before: readonly string[],
  ...args: string[]
): Promise<Usher> => served(launch(t, args, before))

/** The same of an Usher that is installed, by its own command line. */
export const startInstalled = (
  t: Test,
  program: readonly string[],
  ...args: string[]
): Promise<Usher> => served(launch(t, args, [], program))

/** Starts a command that serves, and waits until it does. */
export const startUsher = (t: Test, ...args: string[]): Promise<Usher> =>
  served(launchUsher(t, ...args))

const served = async (launched: LaunchedUsher): Promise<Usher> => {
  const serving = await launched.logged('serving')
  const metrics = String(serving['metrics'])
  const status = async (): Promise<StatusDocument> =>
    JSON.parse((await get(metrics, '/status')).body) as StatusDocument
  return {
    ...launched,
    metrics,
    healthz: String(serving['healthz']),
    status,
    servicePort: async name => {
      const all = (await status()).servicePorts
      const found = all.find(({ servicePort }) => servicePort === `default/${name}`)
      if (found === undefined) throw new Error(`no ServicePort ${name}`)
      return found
    },
  }
}

interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

interface Begun {
  readonly said: Promise<unknown>
  readonly ended: Promise<Ended>
}

/** Begins a command: `said` resolves when it has said something on stderr. */
export const beginUsher = (...args: string[]): Begun => begin(args, [])

const begin = (args: readonly string[], before: readonly string[]): Begun => {
  const child = spawnUsher(args, before)
  const said = once(child.stderr, 'data')
  const ended = Promise.all([exitOf(child), text(child.stdout), text(child.stderr)])
  return { said, ended: ended.then(([{ code }, out, err]) => ({ code, out, err })) }
}

/** Runs a command to its end. */
export const runUsher = (...args: string[]): Promise<Ended> => beginUsher(...args).ended

/** The same by another program, which is given the command line. */
export const runUsherBy = (
  before: readonly string[],
  ...args: string[]
): Promise<Ended> => begin(args, before).ended

/** Asks an HTTP server of Usher's. */
export const get = async (
  address: string,
  path: string,
): Promise<{ status: number; body: string }> => {
  const response = await fetch(`http://${address}${path}`, {
    headers: { connection: 'close' },
  })
  return { status: response.status, body: await response.text() }
}

export const spawnUsher = (
  args: readonly string[],
  before: readonly string[] = [],
  program: readonly string[] = programFor(args),
) => {
  // Without the variables of the test runner, which would load its own things.
  const { PATH } = process.env
  const line = [...before, ...program, ...args, ...unlessGiven(args)]
  return spawn(line[0] ?? '', line.slice(1), {
    env: { PATH },
    stdio: ['ignore', 'pipe', 'pipe'],
    // One that should have ended by itself must not hold up the tests.
    timeout: 170_000,
    killSignal: 'SIGKILL',
  })
}

const programFor = (args: readonly string[]): readonly string[] => {
  const fromApi = args.some(arg => arg.startsWith('--kubeconfig'))
  return [process.execPath, fromApi ? loopbackUsher : usherProgram]
}

const exitOf = (child: ChildProcess): Promise<Exit> =>
  new Promise(resolve => {
    child.on('close', (code, signal) => resolve({ code, signal }))
  })

const fits = (record: LogRecord, msg: string | RegExp, fields: object): boolean => {
  const { msg: said } = record
  if (!(typeof msg === 'string' ? said === msg : msg.test(said))) return false
  return Object.entries(fields).every(([name, value]) => record[name] === value)
}
