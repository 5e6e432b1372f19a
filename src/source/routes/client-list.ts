import { isAbsolute } from 'node:path'
import {
  addressRanges,
  type AddressRanges,
  readBlock,
} from '../../util/address-ranges.ts'
import type { Cidr } from '../../util/cidr.ts'
import { show } from '../../util/printable.ts'
import { decodeUtf8, fileFault, readRegular } from '../../util/read-text.ts'
import { pacer } from '../../util/list-diff.ts'

const prefix = 'file:'

/** Bytes: about a million addresses. */
const mostBytes = 16 * 1024 * 1024

/** More are only counted. */
const mostFaults = 20

const blockForm = 'an address or a CIDR, like 10.0.0.0/8 or fd00::1'

export const entryForm = `${blockForm}, or file: and an absolute path, like file:/etc/usher/blocked.txt`

/** An entry of a list of clients: its block, the path of a file of blocks, or what is wrong. */
export const readEntry = (
  given: string,
): { readonly block: Cidr } | { readonly path: string } | string => {
  if (given.startsWith(prefix)) {
    const path = given.slice(prefix.length)
    return isAbsolute(path) && path.length > 1 && !path.includes('\0')
      ? { path }
      : `${show(given)} is not ${entryForm}`
  }
  const block = readBlock(given)
  return block === undefined ? `${show(given)} is not ${entryForm}` : { block }
}

/** What there is in a file of blocks. */
export interface ListFile {
  readonly ranges: AddressRanges
  /** `line 3: ...`, none when it can be used. */
  readonly faults: readonly string[]
  /** The system could not read it, which another time it may, though the file does not change. */
  readonly isUnread?: boolean
}

const nothing = addressRanges([])

const unusable = (reason: string): ListFile => ({ ranges: nothing, faults: [reason] })

/** Reads one block a line; `#` begins a comment. Lets the event loop turn meanwhile. Never rejects. */
export const readListFile = async (path: string): Promise<ListFile> => {
  let text: string
  try {
    const bytes = await readRegular(path, mostBytes)
    if (bytes.length > mostBytes)
      return unusable(`it is larger than ${mostBytes / 1024 / 1024} MiB; split it`)
    text = decodeUtf8(bytes)
  } catch (error) {
    const isUnread = error instanceof Error && 'code' in error
    return { ...unusable(fileFault(error)), isUnread }
  }
  return parseListFile(text)
}

const parseListFile = async (text: string): Promise<ListFile> => {
  const turn = pacer()
  const blocks: Cidr[] = []
  const faults: string[] = []
  let count = 0
  let line = 0
  for (let at = 0; at < text.length; line += 1) {
    const end = text.indexOf('\n', at)
    const whole = text.slice(at, end < 0 ? text.length : end)
    at = end < 0 ? text.length : end + 1
    const given = whole.replace(/#[^]*$/, '').trim()
    const block = given === '' ? undefined : readBlock(given)
    if (block !== undefined) blocks.push(block)
    else if (given !== '') {
      count += 1
      if (count <= mostFaults)
        faults.push(`line ${line + 1}: ${show(given)} is not ${blockForm}`)
    }
    const yields = turn()
    if (yields !== undefined) await yields
  }
  if (count > mostFaults) faults.push(`and ${count - mostFaults} more faults`)
  return { ranges: count > 0 ? nothing : addressRanges(blocks), faults }
}
