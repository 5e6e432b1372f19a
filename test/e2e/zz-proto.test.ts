import t from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { makeClusterNet } from '../support/net/cluster-net.ts'
import { startAgents } from '../support/net/cluster-agents.ts'
import { underLoad } from './parts/capture/under-load.ts'
import { writeFileSync } from 'node:fs'
t.test('x', async t => {
  const net = await makeClusterNet('proto')
  const agents = await startAgents(t, net)
  await net.node.run('ip', ['-batch', '-'], { input: 'route add local 169.254.77.88/32 dev lo proto 117\naddr add fd75:7368:6572::1/128 dev lo nodad\n' })
  const fam = (f: string, pa: string, vips: string[], nps: string) => `table ${f} usher {
  chain np { type nat hook prerouting priority -100;
    ${vips.map(v => `${f} daddr ${v} tcp dport 80 dnat to ${pa}`).join('\n')}
    fib daddr type local tcp dport 30001 dnat to ${pa}
  }
  chain no { type nat hook output priority -100;
    ${vips.map(v => `${f} daddr ${v} tcp dport 80 dnat to ${pa}`).join('\n')}
    fib daddr type local tcp dport 30001 dnat to ${pa}
  }
  chain silence { type filter hook output priority 0;
    ${f} saddr ${nps} tcp flags rst ct status & assured == 0 drop
    ${f} saddr ${nps} icmp${f === 'ip' ? '' : 'v6'} type destination-unreachable drop
  }
}\n`
  await net.node.run('nft', ['-f', '-'], { input: fam('ip', '169.254.77.88:4001', ['10.96.0.1', '192.0.2.1', '198.18.0.1'], '169.254.77.88') + fam('ip6', '[fd75:7368:6572::1]:4001', ['fd10:96::1', '2001:db8:e::1', '2001:db8:1b::1'], 'fd75:7368:6572::1') })
  writeFileSync('/tmp/hack/srv.mjs', `import net from 'node:net'
for (const a of ['169.254.77.88', 'fd75:7368:6572::1']) net.createServer(s => { s.on('error', () => {}); s.on('data', () => s.end('backend-1 ' + s.remoteAddress + '\\n')) }).listen({ port: 4001, host: a, backlog: 4096 }, () => console.log('up'))`)
  const srv = async () => { const c = spawn('ip', ['netns', 'exec', net.node.name, process.execPath, '/tmp/hack/srv.mjs'], { stdio: ['ignore', 'pipe', 'inherit'] }); await once(c.stdout, 'data'); return c }
  let c = await srv()
  let killed = 0
  const load = await underLoad(agents, async () => {
    c.kill('SIGKILL'); await once(c, 'exit'); killed = Date.now(); c = await srv()
  })
  console.error(load.text, killed); for (const f of load.failures.slice(0, 40)) console.error(JSON.stringify(f))
  c.kill()
})
