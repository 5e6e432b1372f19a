import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { missingPrograms } from '../support/installed.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { usherProgram } from '../support/usher-program.ts'

const isRoot = process.getuid?.() === 0
const skip =
  linuxRelaySkip() ||
  (isRoot ? missingPrograms('nft', 'bash') : 'network namespaces need root')

const server =
  "require('net').createServer(s => s.on('error', () => {}).pipe(s)).listen(7001)"

/** A client whose packets are dropped once it is served. */
const script = `
ip link set lo up
"$NODE" -e "${server}" & echo=$!
"$NODE" "$USHER" sidecar --route=tcp://127.0.0.1:7000=127.0.0.1:7001 --relay=linux \\
  --tcp-keepalive=1s --tcp-keepalive-interval=1s --tcp-keepalive-probes=1 > "$LOG" 2>&1 & usher=$!
lasts() { for i in {1..100}; do grep -q "$1" "$LOG" && return; sleep 0.2; done; return 1; }
lasts '"serving"' || exit 1
exec 3<>/dev/tcp/127.0.0.1/7000 && echo hi >&3 && read -r _ <&3 || exit 2
nft 'add table inet t; add chain inet t c { type filter hook input priority 0; }'
nft add rule inet t c tcp dport 7000 drop
lasts '"cause"'
kill $usher $echo
cat "$LOG"
`

t.test('a client that keep-alive gives up has timed out', { skip }, async t => {
  const env = {
    PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
    NODE: process.execPath,
    USHER: usherProgram,
    LOG: `${t.testdir({})}/log`,
  }
  const run = promisify(execFile)
  const args = ['--net', 'bash', '-c', script]
  const { stdout } = await run('unshare', args, { env, timeout: 60_000 })
  t.match(stdout, /"cause":"cD".*"detail":"ETIMEDOUT"/)
})
