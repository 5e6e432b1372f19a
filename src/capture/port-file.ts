import { constants } from 'node:fs'
import { mkdir, open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Protocol } from '../model/service.ts'
import { forEachYielding } from '../util/yielding.ts'

/** One line of the file. */
export interface PortRecord {
  readonly id: string
  readonly protocol: Protocol
  readonly port: number
  /** Seconds since 1970 at which its ServicePort was found to be away; 0: it was there. */
  readonly awaySince: number
}

/** Written and read; those away for longest are the first to be left out. */
const mostRecords = 100_000
/** An id has some 60 characters, and 400 at most. */
const mostBytes = 48 * 1024 * 1024
const magic = 'usher-proxy-ports'
const version = 1

/**
 * Reads what `writePortFile` wrote; nothing where there is no file. Rejects with an Error
 * that says what is wrong with it, whatever is found there.
 */
export const readPortFile = async (path: string): Promise<readonly PortRecord[]> => {
  const text = await readText(path)
  if (text === undefined) return []
  const [header = '', ...lines] = text.split('\n')
  const [name, number] = header.split(' ')
  if (name !== magic) throw new Error(`${path} is not a file of proxy ports`)
  if (number !== String(version))
    throw new Error(`${path} is of version ${number}; known is ${version}`)
  if (lines.pop() !== '') throw new Error(`${path} ends in the middle of a line`)
  if (lines.length > mostRecords)
    throw new Error(`${path} has more than ${mostRecords} lines`)
  const records: PortRecord[] = []
  await forEachYielding(lines, line => {
    const record = parse(line)
    if (record === undefined)
      throw new Error(`${path}: line ${records.length + 2} is not a proxy port`)
    records.push(record)
  })
  return records
}

/** The whole file as text, made without holding the event loop. */
export const portFileText = async (records: readonly PortRecord[]): Promise<string> => {
  const pieces = [`${magic} ${version}\n`]
  await forEachYielding(records.slice(-mostRecords), record => {
    if (!isPlain(record.id)) return
    const { protocol, port, awaySince, id } = record
    pieces.push(`${protocol} ${port} ${awaySince} ${id}\n`)
  })
  return pieces.join('')
}

/**
 * All or nothing, whatever happens in between (rename(2)). Only root and its like may
 * read it. An existing file goes to `putAside` first if that is given. The directory is
 * made if its parent is there.
 */
export const writePortFile = async (
  path: string,
  text: string,
  putAside?: string,
): Promise<void> => {
  const directory = dirname(path)
  // Not recursive: Node's never ends where the kernel makes no directories, as in /proc.
  await unless('EEXIST', mkdir(directory, { mode: 0o700 }))
  const temporary = `${path}.tmp`
  try {
    const file = await open(temporary, writing, 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    if (putAside !== undefined) await unless('ENOENT', rename(path, putAside))
    await rename(temporary, path)
  } catch (error) {
    await unlink(temporary).catch(() => {}) // It may not even be there.
    throw error
  }
  await syncDirectory(directory)
}

/** As 'w', but not waiting, should it be a FIFO: the end of the process would, too. */
const { O_WRONLY, O_CREAT, O_TRUNC, O_NONBLOCK } = constants
const writing = O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK

/** Until then the new name may not outlive a crash of the host; the old one would. */
const syncDirectory = async (path: string): Promise<void> => {
  const directory = await open(path, 'r')
  try {
    // Some file systems can't (fsync(2)), and what is written is written.
    await unless('EINVAL', directory.sync())
  } finally {
    await directory.close()
  }
}

/** An error of that name is as good as success. */
const unless = async (code: string, done: Promise<unknown>): Promise<void> => {
  try {
    await done
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== code) throw error
  }
}

const readText = async (path: string): Promise<string | undefined> => {
  let file
  try {
    // Not waiting, should it be a FIFO.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const stat = await file.stat()
    if (!stat.isFile()) throw new Error(`${path} is not a regular file`)
    if (stat.size > mostBytes)
      throw new Error(`${path} has ${stat.size} bytes, more than ${mostBytes}`)
    return await file.readFile('utf8')
  } finally {
    await file.close()
  }
}

/** `TCP 40001 0 IPv4 default/web:http/TCP`. */
const parse = (line: string): PortRecord | undefined => {
  const match = /^(TCP|UDP) ([1-9]\d{0,4}) (0|[1-9]\d{0,11}) (.{1,1000})$/.exec(line)
  if (match === null) return undefined
  const [, protocol, port, awaySince, id = ''] = match
  if (Number(port) > 65_535) return undefined
  return {
    id,
    protocol: protocol === 'UDP' ? 'UDP' : 'TCP',
    port: Number(port),
    awaySince: Number(awaySince),
  }
}

/** Whether it can be read again. */
const isPlain = (id: string): boolean => /^.{1,1000}$/.test(id)
