import { readFile } from 'node:fs/promises'
import { type ConnectionOptions, createSecureContext, type SecureContext } from 'node:tls'
import { errorCode } from '../util/error-code.ts'
import { familyOf } from '../util/ip.ts'
import { errorOf } from '../util/usher-error.ts'
import type { Check } from './check-option.ts'

/** Throws with its name, and never with what it has. */
const read = async (file: string): Promise<string> => {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new Error(`${file} can't be read: ${errorCode(errorOf(error))}`, {
      cause: error,
    })
  }
}

/** Of a file (`file:/PATH`) the first line, of a variable (`env:NAME`) the value; else what is given. */
export const secretOf = async (given: string): Promise<string> => {
  if (given.startsWith('file:/')) {
    const [line = ''] = (await read(given.slice('file:'.length))).split(/\r?\n/, 1)
    return line
  }
  if (!given.startsWith('env:')) return given
  const value = process.env[given.slice('env:'.length)]
  if (value === undefined) throw new Error(`${given} is not set`)
  return value
}

/** Files are read for each check, as certificates are renewed; and parsed when they are others. */
export const tlsOptions = ({ caFile, certFile, keyFile, verify }: Check) => {
  let parsed: { readonly key: string; readonly context: SecureContext } | undefined
  return async (name: string): Promise<ConnectionOptions> => {
    const files = [caFile, certFile, keyFile].map(file => file && read(file))
    const [ca, cert, key] = await Promise.all(files)
    const now = JSON.stringify([ca, cert, key])
    if (parsed?.key !== now)
      parsed = { key: now, context: createSecureContext({ ca, cert, key }) }
    return {
      secureContext: parsed.context,
      rejectUnauthorized: verify !== 'none',
      host: name,
      ...(familyOf(name) === undefined && { servername: name }),
    }
  }
}
