/** A folder, when there is no content; everything may be run by everybody. */
export interface ArchiveEntry {
  /** Without a leading slash. */
  readonly path: string
  readonly content?: Buffer
}

const folderMode = 0o040755
const fileMode = 0o100755

/** An archive as the kernel takes it for its first root: cpio's format `newc`. */
export const cpio = (entries: readonly ArchiveEntry[]): Buffer =>
  Buffer.concat([...entries, { path: 'TRAILER!!!' }].flatMap(entryParts))

const entryParts = (
  { path, content = Buffer.alloc(0) }: ArchiveEntry,
  index: number,
): Buffer[] => {
  const name = `${path}\0`
  const header = newcHeader({
    inode: index + 1,
    mode: content.length > 0 ? fileMode : folderMode,
    size: content.length,
    nameSize: name.length,
  })
  return [...padded(Buffer.from(header + name, 'latin1')), ...padded(content)]
}

interface Header {
  readonly inode: number
  readonly mode: number
  readonly size: number
  readonly nameSize: number
}

/** All in hex: owner, group, time and devices are 0, each has one link. */
const newcHeader = ({ inode, mode, size, nameSize }: Header): string =>
  `070701${[inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, nameSize, 0]
    .map(number => number.toString(16).padStart(8, '0'))
    .join('')}`

/** Header with name, and content, each end at a multiple of four bytes. */
const padded = (bytes: Buffer): Buffer[] => [
  bytes,
  Buffer.alloc((4 - (bytes.length % 4)) % 4),
]
