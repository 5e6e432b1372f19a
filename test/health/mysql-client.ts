import { once } from 'node:events'
import { connect, type NetConnectOpts } from 'node:net'

const packet = (sequence: number, body: Buffer): Buffer => {
  const header = Buffer.alloc(4)
  header.writeUIntLE(body.length, 0, 3)
  header[3] = sequence
  return Buffer.concat([header, body])
}

/** A client without a password that runs statements, and comes to the bytes of the answer. */
export const mysqlClient =
  (to: NetConnectOpts, user: string) =>
  async (statement: string): Promise<string> => {
    const socket = connect(to)
    await once(socket, 'data')
    const head = Buffer.alloc(32)
    head.writeUInt32LE(0x8_8201, 0)
    const login = `${user}\0\0mysql_native_password\0`
    socket.write(packet(1, Buffer.concat([head, Buffer.from(login)])))
    const [welcome] = (await once(socket, 'data')) as [Buffer]
    if (welcome[4] !== 0) throw new Error(`refused: ${welcome.toString('latin1')}`)
    socket.write(packet(0, Buffer.from(`\x03${statement}`)))
    const [answer] = (await once(socket, 'data')) as [Buffer]
    socket.end(packet(0, Buffer.from([1])))
    await once(socket, 'close')
    if (answer[4] === 0xff) throw new Error(answer.toString('latin1', 7))
    return answer.toString('latin1')
  }
