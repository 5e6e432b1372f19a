import { loadVariants } from './program-variants.ts'

/* With the privileges, and the kernel, of who runs it. */
console.log(`the verifier took ${loadVariants()} programs`)
