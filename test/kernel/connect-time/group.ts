import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, rmdir } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { Deferred } from '../../../src/util/deferred.ts'
import { Bpf } from '../../../src/kernel/bpf/bpf.ts'

/** Where cgroup v2 is, alone or beside v1. */
const root = ['/sys/fs/cgroup', '/sys/fs/cgroup/unified'].find(path =>
  existsSync(`${path}/cgroup.controllers`),
)

const whyNot = (): string => {
  if (process.getuid?.() !== 0) return 'BPF programs need root'
  if (root === undefined) return 'there is no cgroup v2 here'
  try {
    const bpf = new Bpf()
    bpf.close(
      bpf.createMap({
        name: 'usher_try',
        type: 'hash',
        keySize: 8,
        valueSize: 8,
        entries: 1,
      }),
    )
    return ''
  } catch (error) {
    return `bpf(2) is not to be had here: ${(error as Error).message}`
  }
}

const why = whyNot()
export const skip = why === '' ? false : why

export interface Answer {
  readonly said?: string
  readonly peer?: string
  readonly error?: string
  /** An error that a socket was told of without being asked. */
  readonly told?: string
}

/** A program in a cgroup and a network namespace. */
export interface Client {
  readonly serve: (address: string, port?: number) => Promise<number>
  readonly tcp: (address: string, port: number) => Promise<Answer>
  readonly udp: (
    address: string,
    port: number,
    socket: {
      readonly name: string
      readonly connected?: true
      readonly localPort?: number
    },
  ) => Promise<Answer>
  /** Dials at the first time; later it says whether that connection goes on. */
  readonly keepTcp: (address: string, port: number, name: string) => Promise<Answer>
}

export interface Group {
  readonly path: string
  /** In a network namespace of its own, with `lo` up, or in that of the test. */
  readonly client: (where?: 'own' | 'the host') => Promise<Client>
}

/** A cgroup of the test's own, which ends with the file. */
export const makeGroup = async (): Promise<Group> => {
  const path = `${root}/usher-test-${process.pid}-${randomBytes(3).toString('hex')}`
  await mkdir(path)
  t.teardown(() => rmdir(path))
  return { path, client: (where = 'own') => startClient(path, where) }
}

const program = fileURLToPath(new URL('client-main.mjs', import.meta.url))

const startClient = async (group: string, where: string): Promise<Client> => {
  const child = spawn(
    'unshare',
    [
      ...(where === 'own' ? ['--net'] : []),
      'sh',
      '-c',
      'ip link set lo up && echo $$ > "$1/cgroup.procs" && exec "$2" "$3"',
      'sh',
      group,
      process.execPath,
      program,
    ],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  t.teardown(async () => {
    child.stdin.end()
    if (child.exitCode === null) await once(child, 'exit')
  })
  const ask = asker(child)
  return {
    serve: async (address, port) => (await ask({ do: 'serve', address, port })) as number,
    tcp: async (address, port) => (await ask({ do: 'tcp', address, port })) as Answer,
    udp: async (address, port, socket) =>
      (await ask({ do: 'udp', address, port, ...socket })) as Answer,
    keepTcp: async (address, port, name) =>
      (await ask({ do: 'keepTcp', address, port, name })) as Answer,
  }
}

const asker = (child: ChildProcess): ((question: object) => Promise<unknown>) => {
  const { stdin, stdout } = child
  if (stdin === null || stdout === null) throw new Error('it has no pipes')
  const waiting = new Map<number, Deferred<unknown>>()
  createInterface(stdout).on('line', line => {
    const { id, answer } = JSON.parse(line) as { id: number; answer: unknown }
    waiting.get(id)?.resolve(answer)
    waiting.delete(id)
  })
  child.once('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error('the client has ended'))
  })
  let asked = 0
  return question => {
    asked += 1
    const answer = new Deferred<unknown>()
    waiting.set(asked, answer)
    stdin.write(`${JSON.stringify({ id: asked, question })}\n`)
    return answer.promise
  }
}
