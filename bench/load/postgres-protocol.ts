/** As much of PostgreSQL's protocol 3.0 as a client without a password needs. */

/** To be let in as `postgres`. */
export const startup = (): Buffer => {
  const body = Buffer.from('\0\x03\0\0user\0postgres\0database\0postgres\0\0', 'latin1')
  return Buffer.concat([lengthOf(body), body])
}

export const query = (text: string): Buffer => message('Q', `${text}\0`)

export const terminate = (): Buffer => message('X', '')

const message = (type: string, text: string): Buffer => {
  const body = Buffer.from(text, 'latin1')
  return Buffer.concat([Buffer.from(type), lengthOf(body), body])
}

const lengthOf = (body: Buffer): Buffer => {
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  return length
}

/**
 * What a server has answered, once it is ready for the next query (ReadyForQuery): the first
 * column of the last row, '' without one. Throws `PostgreSQL 57P03` for an error.
 */
export const answerIn = (heard: Buffer): string | undefined => {
  let value = ''
  for (let at = 0; at + 5 <= heard.length;) {
    const type = String.fromCharCode(heard[at] ?? 0)
    const end = at + 1 + heard.readInt32BE(at + 1)
    if (end > heard.length) return undefined
    const body = heard.subarray(at + 5, end)
    if (type === 'Z') return value
    if (type === 'E') throw new Error(`PostgreSQL ${codeOf(body)}`)
    if (type === 'D') value = body.subarray(6, 6 + body.readInt32BE(2)).toString('latin1')
    at = end
  }
  return undefined
}

/** The SQLSTATE among the fields of an ErrorResponse. */
const codeOf = (body: Buffer): string =>
  /(?:^|\0)C([^\0]*)/.exec(body.toString('latin1'))?.[1] ?? 'error'
