import { once } from 'node:events'
import { connect } from 'node:net'

/** Says something to a server, and comes to what it answered until it closed. */
export const talkTo = async (port: number, text: string): Promise<string> => {
  const socket = connect(port, '127.0.0.1')
  let heard = ''
  socket.on('data', bytes => (heard += bytes.toString('latin1')))
  socket.write(text)
  await once(socket, 'close')
  return heard
}
