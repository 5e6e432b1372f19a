import t from 'tap'
import { descriptorTests } from './parts/descriptors.ts'
import { kernelSocketTests } from './parts/kernel-sockets.ts'
import { listeningTests } from './parts/listening.ts'

kernelSocketTests(t)
descriptorTests(t)
listeningTests(t)
