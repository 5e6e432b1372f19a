import { setFlagsFromString } from 'node:v8'

/**
 * Keeps V8's young generation as small as it starts, at 1 MB a half. It would grow to 16
 * while the objects of a large cluster are decoded, and seldom shrink: some 30 MB with
 * 5 000 Services, for no less work. And garbage of a third of what lives is collected: V8
 * would wait for as much again. Heeded at any time, as V8 asks for it when it grows.
 */
export const keepHeapSmall = (): void => {
  setFlagsFromString('--semi-space-growth-factor=1')
  setFlagsFromString('--heap-growing-percent=30')
}
