const causes: ReadonlyMap<string, string> = new Map([
  ['EADDRINUSE', 'another process listens there; end it or '],
  ['EACCES', 'ports below 1024 need CAP_NET_BIND_SERVICE; grant it or '],
  ['EADDRNOTAVAIL', 'this host does not have the address; '],
])

/** What to do about an address that can't be listened on, by its errno; or `otherwise`. */
export const listenAdvice = (code: string | undefined, otherwise: string): string =>
  `${causes.get(code ?? '') ?? ''}${otherwise}`
