// A process of its own: long, and it mostly waits.
import { existsSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { captureCells } from './capture/matrix.ts'
import type { Stage } from './capture/stage.ts'
import { nftablesMode } from './capture/ways.ts'

const why = await netnsProblem('iptables', 'nft')

/** An nft that does not take a map that all Services share, as an older one. */
const olderNft = `#!/bin/sh
case "$*" in
  *-f*) ;;
  *) exec /usr/sbin/nft "$@" ;;
esac
input=$(cat; echo .)
case "$input" in
  *typeof*numgen*)
    echo '/dev/stdin:2:1-9: Error: syntax error, unexpected numgen' >&2
    echo 'typeof numgen' >&2
    exit 1 ;;
  *'ip usher-services'*'numgen random mod'*'map {'*) : > "$0.own" ;;
esac
printf '%s' "\${input%.}" | exec /usr/sbin/nft "$@"
`

const useOlderNft = async ({ tools }: Stage): Promise<void> => {
  const path = join(tools, 'nft')
  await rm(path)
  await writeFile(path, olderNft, { mode: 0o755 })
}

t.test('with a map for each Service', { skip: why !== '' && why }, async t => {
  const way = { ...nftablesMode, label: 'nft-own' }
  let own = ''
  await captureCells(t, way, async stage => {
    await useOlderNft(stage)
    own = join(stage.tools, 'nft.own')
  })
  t.ok(existsSync(own), 'such a map was written')
})
