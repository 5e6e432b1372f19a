import { ToolError } from './run-tool.ts'

/** What tools print of a kernel (or a network namespace) that does not have the thing at all. */
const lacking = new RegExp(
  [
    'protocol not (?:supported|available)',
    'address family not supported',
    '(?:table|chain) does not exist',
    'cannot open session to kernel',
    "can(?:no|')t initialize",
    // A kernel without nf_tables, in the words of iptables-nft and of nft.
    'could not fetch rule set generation id: invalid argument',
    'cache initialization failed: invalid argument',
    // One that has nfnetlink, but no ip_set, in the words of ipset.
    'kernel error received: invalid argument',
  ].join('|'),
  'i',
)

/** Whether a tool failed because the kernel has nothing of the kind it manages. */
export const kernelLacks = (error: unknown): boolean =>
  error instanceof ToolError && lacking.test(error.stderr)
