/** The errno name of an error, or its message where it has none. */
export const errorCode = (error: NodeJS.ErrnoException): string =>
  error.code ?? error.message

const codes = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'])

/** Whether an errno name says that this process or host is out of descriptors or memory. */
export const isOutOfResources = (code: string | undefined): boolean =>
  code !== undefined && codes.has(code)
