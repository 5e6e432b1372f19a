import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'
import type { Netns } from '../../support/netns.ts'

/** What stands for a kube-proxy on the node; its rules stay at its end. */
export interface KubeProxyPart {
  end(): Promise<void>
}

/** The rules of one of its modes, for one Service with policy Cluster, TCP. */
export interface KubeProxyRules {
  /** As it says it at `/proxyMode`. */
  readonly mode: 'iptables' | 'nftables'
  /** Puts them in as one that starts does, whatever is there of one before. */
  readonly write: () => Promise<void>
}

/** What runs on the node and says its mode; ports that are taken are tried again. */
const server = `
const serve = (port, answers) => {
  const server = require('node:http').createServer((request, response) => {
    const body = answers[request.url]
    response.writeHead(body === undefined ? 404 : 200).end(body)
  })
  const listen = () => server.listen(port, '127.0.0.1', () => console.log('listens'))
  server.on('error', () => setTimeout(listen, 200))
  listen()
}
serve(10249, { '/proxyMode': process.argv[1] })
`

/** Writes its rules, then answers. */
export const startKubeProxyPart = async (
  t: Test,
  node: Netns,
  { mode, write }: KubeProxyRules,
): Promise<KubeProxyPart> => {
  await write()
  const [command = '', ...prefix] = node.prefix
  const child = spawn(command, [...prefix, process.execPath, '-e', server, mode], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const closed = once(child, 'close')
  const end = async (): Promise<void> => {
    child.kill('SIGKILL')
    await closed
  }
  t.teardown(end)
  await once(child.stdout, 'data')
  return { end }
}
