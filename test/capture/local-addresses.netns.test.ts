import t from 'tap'
import { makeNetns, netnsProblem } from '../support/netns.ts'
import { typescript } from '../support/typescript.ts'

const why = await netnsProblem()
const tested = new URL('../../src/capture/local-addresses.ts', import.meta.url).href

t.test(
  'what Usher put on the host is no address of the node',
  { skip: why !== '' && why },
  async t => {
    const ns = await makeNetns('own')
    const add = (address: string, device: string) =>
      ns.run('ip', ['address', 'add', address, 'dev', device, 'nodad'])
    for (const device of ['kube-ipvs0', 'usher0', 'eth0']) {
      await ns.run('ip', ['link', 'add', device, 'type', 'bridge'])
      await ns.run('ip', ['link', 'set', device, 'up'])
    }
    await add('fd00:97::1/128', 'kube-ipvs0')
    await add('fd00:98::1/128', 'usher0')
    await add('fd00:1::1/64', 'eth0')
    // An external IP that is the node's own, and VIPs of --capture local.
    const vips = ['fd00:1::1', 'fd00:96::1', 'fd00:96::2']
    await add('fd00:96::1/128', 'lo')
    await add('fd00:96::2/128', 'lo')
    await add('fd00:2::1/128', 'lo')
    const script = `import(${JSON.stringify(tested)}).then(({ nodeAddresses }) =>
      console.log(nodeAddresses('IPv6', new Set(${JSON.stringify(vips)})).join(' ')))`
    const out = await ns.run(process.execPath, [typescript, '-e', script])
    t.equal(out.trim(), '::1 fd00:1::1 fd00:2::1')
  },
)
