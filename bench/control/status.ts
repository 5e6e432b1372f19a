import type { StatusDocument } from '../../src/observe/status.ts'

/** Where the relay listens for the Service `default/NAME`. Throws when it doesn't. */
export const proxyAddressOf = async (
  metrics: string,
  name: string,
): Promise<{ host: string; port: number }> => {
  const response = await fetch(`http://${metrics}/status`)
  const { servicePorts } = (await response.json()) as StatusDocument
  const found = servicePorts.find(({ servicePort }) =>
    servicePort.startsWith(`default/${name}`),
  )
  const listen = found?.vips.find(vip => vip.listen !== '')?.listen
  if (listen === undefined) throw new Error(`usher does not listen for ${name}`)
  const [host = '', port] = listen.split(':')
  return { host, port: Number(port) }
}
