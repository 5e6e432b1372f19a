import t from 'tap'
import { Assembler, stack } from '../../../src/kernel/bpf/assembler.ts'
import { disassemble, encode } from '../../../src/kernel/bpf/instruction.ts'

const all = (): Assembler =>
  new Assembler()
    .move(6, 1)
    .set(0, -1)
    .setWide(1, 0x8000_0001_ffff_fffen)
    .map(1, 'services')
    .label('again')
    .stackAddress(2, -24)
    .load('u8', 1, 6, 4)
    .load('u16', 1, 6, 4)
    .store('u32', stack, -8, 1)
    .store('u64', stack, -8, 1)
    .storeValue('u16', stack, -8, 0xffff)
    .add(1, 2)
    .subtract(1, 2)
    .multiplyValue(1, 1_000_000_000)
    .orValue(1, 4)
    .shiftRight(1, 16)
    .modulo32(0, 1)
    .ifEqual(0, 0, 'end')
    .ifNotEqual(1, 2, 'again')
    .ifDiffer(0, 1, 'end')
    .ifAbove(1, 3, 'again')
    .ifAboveOther(2, 1, 'end')
    .jump('end')
    .label('end')
    .call(1)
    .exit()

t.test('what is written can be read', async t => {
  t.same(disassemble(all().program()), [
    '0: r6 = r1',
    '1: r0 = -1',
    '2: r1 = -2 (lower half)',
    '4: r1 = map services',
    '6: r2 = r10',
    '7: r2 += -24',
    '8: r1 = *(u8 *)(r6 +4)',
    '9: r1 = *(u16 *)(r6 +4)',
    '10: *(u32 *)(r10 -8) = r1',
    '11: *(u64 *)(r10 -8) = r1',
    '12: *(u16 *)(r10 -8) = 65535',
    '13: r1 += r2',
    '14: r1 -= r2',
    '15: r1 *= 1000000000',
    '16: r1 |= 4',
    '17: r1 >>= 16',
    '18: w0 %= w1',
    '19: if r0 == 0 goto 25',
    '20: if r1 != 2 goto 6',
    '21: if r0 != r1 goto 25',
    '22: if r1 > 3 goto 6',
    '23: if r2 > r1 goto 25',
    '24: goto 25',
    '25: call 1',
    '26: exit',
  ])
})

t.test('instructions are the bytes that the kernel reads', async t => {
  const program = new Assembler()
    .map(1, 'services')
    .load('u64', 3, 6, -8)
    .setWide(2, -2n)
    .ifNotEqual(1, 2, 'end')
    .label('end')
    .exit()
    .program()
  t.equal(
    encode(program, name => (name === 'services' ? 0x1234 : -1)).toString('hex'),
    [
      '18110000341200000000000000000000',
      '7963f8ff00000000',
      '18020000feffffff00000000ffffffff',
      '5501000002000000',
      '9500000000000000',
    ].join(''),
  )
})

t.test('a label that is missing or there twice is a fault', async t => {
  t.throws(() => new Assembler().jump('nowhere').program(), /no label nowhere/)
  t.throws(() => new Assembler().label('a').label('a'), /label a is there twice/)
})
