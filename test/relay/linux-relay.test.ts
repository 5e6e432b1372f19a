import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { linuxDeathTests } from './parts/linux-main-deaths.ts'
import { linuxRelayTests } from './parts/linux-main-relay.ts'
import { linuxShortageTests } from './parts/linux-main-shortage.ts'
import { linuxSocketTests } from './parts/linux-main-sockets.ts'
import { workerWatchTests } from './parts/linux-main-watch.ts'
import { linuxWorkerTests } from './parts/linux-main-workers.ts'

const skip = linuxRelaySkip()

t.test('sockets', { skip }, async t => linuxSocketTests(t))
t.test('workers', { skip }, async t => linuxWorkerTests(t))
t.test('deaths', { skip }, async t => linuxDeathTests(t))
t.test('the relay', { skip }, async t => linuxRelayTests(t))
t.test('shortage', { skip }, async t => linuxShortageTests(t))
t.test('watching workers', async t => workerWatchTests(t))
