import { whyNoNetns } from '../../../support/netns.ts'

const why = await whyNoNetns()

/** For tests in namespaces of their own; asked once. */
export const options = { skip: why !== '' && why }
