import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import { until } from './until.ts'
import { missingPrograms } from './installed.ts'

/** The receiver is no part of Usher, and Node has no datagrams of unix sockets. */
export const noticesProblem = missingPrograms('python3')

const receiver = `
import json, socket, sys
name = sys.argv[1]
heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
heard.bind("\\0" + name[1:] if name[0] == "@" else name)
print(json.dumps("listening"), flush=True)
while True:
    print(json.dumps(heard.recv(8192).decode()), flush=True)
`

export interface Notices {
  /** The messages so far; a message has lines. */
  readonly messages: readonly (readonly string[])[]
  /** The first message from `from` on that has this line, waited for; gives its place. */
  readonly heard: (line: RegExp, from?: number) => Promise<number>
}

/** Takes the place of systemd at a unix datagram socket: a path, or `@` and an abstract name. */
export const receiveNotices = async (t: Test, socket: string): Promise<Notices> => {
  const child = spawn('python3', ['-c', receiver, socket], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exit = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exit
  })
  const messages: string[][] = []
  createInterface(child.stdout).on('line', line => {
    messages.push((JSON.parse(line) as string).split('\n'))
  })
  await until('the receiver listens', () => messages.length > 0)
  messages.length = 0
  const find = (line: RegExp, from: number): number =>
    messages.findIndex(
      (message, index) => index >= from && message.some(text => line.test(text)),
    )
  return {
    messages,
    heard: async (line, from = 0) => {
      await until(`heard ${String(line)}`, () => find(line, from) !== -1)
      return find(line, from)
    },
  }
}
