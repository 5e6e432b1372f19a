const codes = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'])

/** Whether an errno name says that this process or host lacks descriptors or memory. */
export const isOutOfResources = (code: string | undefined): boolean =>
  code !== undefined && codes.has(code)
