import { badValue, textual } from './basic.ts'

/**
 * sun_path of unix(7) has 108 bytes, and 104 on other systems; one is its closing zero, and five
 * more are taken while the socket is made (placed-socket.ts).
 */
const mostBytes = process.platform === 'linux' ? 102 : 98

/** The path of a unix socket, or nothing. */
export const socketPath = textual('PATH', given => {
  const bytes = Buffer.byteLength(given)
  if (given.includes('\0'))
    throw badValue(given, 'has a zero byte in it', 'give the path of a file')
  if (bytes > mostBytes)
    throw badValue(
      given,
      `has ${bytes} bytes, and the path of a socket has ${mostBytes} at most`,
      'give a shorter one',
    )
  return given
})
