import { get } from 'node:http'
import { text } from 'node:stream/consumers'

/** A proxy of this node, as its metrics server answers. */
export interface NodeProxy {
  /** Undefined when it is not one. One that drains has let go of its rules. */
  readonly usher?: 'draining' | 'serving'
  /**
   * `iptables`, `ipvs`, `nftables` or `userspace`; '' of a program that has the port and has not
   * answered in time, as a kube-proxy, or an Usher that drains, on a busy node may not.
   */
  readonly mode: string
}

/** kube-proxy's default of --metrics-bind-address, and Usher's. */
const hosts = ['127.0.0.1', '::1'] as const
const port = 10_249
const modes = /^(?:iptables|ipvs|nftables|userspace)$/
/** A busy node takes seconds; where nothing listens, that is known at once. */
const answerMs = 10_000
/** A status of Usher's may be long; its beginning is enough. */
const mostBytes = 256

/**
 * The proxy that serves this node now; undefined when none answers. Rules are no sign: a
 * kube-proxy that was ended leaves the same ones. One that listens elsewhere is not found.
 */
export const findNodeProxy = async (): Promise<NodeProxy | undefined> => {
  for (const host of hosts) {
    const answer = await ask(host, '/proxyMode')
    if (answer === 'silence') return { mode: '' }
    const mode = answer.text.trim()
    if (!modes.test(mode)) continue
    const status = await ask(host, '/status')
    if (status === 'silence') return { mode: '' }
    if (status.text === '') return { mode }
    const isDraining = status.text.includes('"draining":true')
    return { mode, usher: isDraining ? 'draining' : 'serving' }
  }
  return undefined
}

/** The beginning of what is answered with 200; '' when there is nobody, or another answer. */
const ask = (
  host: string,
  path: string,
): Promise<{ readonly text: string } | 'silence'> =>
  new Promise(resolve => {
    const signal = AbortSignal.timeout(answerMs)
    const nothing = (): void => resolve(signal.aborted ? 'silence' : { text: '' })
    const request = get({ host, port, path, agent: false, signal }, response => {
      if (response.statusCode === 200)
        text(shortened(response)).then(found => resolve({ text: found }), nothing)
      else nothing()
      response.once('close', () => request.destroy())
    })
    request.once('error', nothing)
  })

async function* shortened(body: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  let length = 0
  for await (const piece of body) {
    yield piece.subarray(0, mostBytes - length)
    length += piece.length
    if (length >= mostBytes) return
  }
}
