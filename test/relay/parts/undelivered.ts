import t from 'tap'
import { descriptorTests } from './descriptors.ts'
import { kernelSocketTests } from './kernel-sockets.ts'
import { listeningTests } from './listening.ts'

kernelSocketTests(t)
descriptorTests(t)
listeningTests(t)
