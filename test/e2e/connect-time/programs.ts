import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import type { Stage } from './stage.ts'

const exec = promisify(execFile)
type Place = Pick<Stage, 'group' | 'node'>

/** What a program says on its output, started on the node as any other of its processes. */
export const said = async (
  { group, node }: Place,
  ...command: readonly string[]
): Promise<string> => {
  const [program = '', ...args] = [...group.prefix(node), ...command]
  const { stdout } = await exec(program, args, { timeout: 20_000 })
  return stdout.trim()
}

/** Starts a server there, which ends with the test. */
export const served = (
  t: Test,
  { group, node }: Place,
  ...command: readonly string[]
): void => {
  const [program = '', ...args] = [...group.prefix(node), ...command]
  const child = spawn(program, args, { stdio: 'ignore' })
  const closed = once(child, 'close')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await closed
  })
}

/** A server of HTTP that says how many connections it had, in JavaScript. */
export const httpServer = (address: string, port: number): string => `
  let connections = 0
  require('http')
    .createServer((_, response) => response.end('connection ' + connections + '\\n'))
    .on('connection', () => (connections += 1))
    .listen(${port}, '${address}')`

/** Asks for an address at a name server as resolvers do: it drops answers of others. */
export const nodeResolver = (server: string): string => `
  const { Resolver } = require('dns').promises
  const resolver = new Resolver({ timeout: 2000, tries: 3 })
  resolver.setServers(['${server}'])
  resolver.resolve4('web.example').then(all => console.log(all.join()))`

/** The same by a socket, connected or not; where the answer came from, and the last byte of it. */
export const pythonResolver = (server: string, connected: boolean): string => `
import socket, struct
query = struct.pack('>6H', 7, 256, 1, 0, 0, 0) + b'\\x03web\\x07example\\x00' + struct.pack('>2H', 1, 1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
${connected ? `s.connect(('${server}', 53)); s.send(query)` : `s.sendto(query, ('${server}', 53))`}
answer, peer = s.recvfrom(512)
print(peer[0], peer[1], socket.inet_ntoa(answer[-4:]))`

/** HTTP by a socket of the given family. */
export const pythonClient = (family: 'AF_INET' | 'AF_INET6', address: string): string => `
import socket
s = socket.socket(socket.${family}, socket.SOCK_STREAM)
s.settimeout(5)
s.connect(('${address}', 80))
s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
data = b''
while True:
    more = s.recv(4096)
    if not more: break
    data += more
print(s.getpeername()[0], data.split(b'\\r\\n')[0].decode())`
