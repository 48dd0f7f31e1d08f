package batch

import "hash/crc32"

// A CRC is linear over GF(2): the checksums of two messages of one length differ by the checksum, without its
// constants, of their difference. Where the difference ends before the messages do, zeros follow, and n zero bytes
// multiply a checksum by x^(8n) modulo the polynomial. The power is put together from the squares below, so the work
// grows with the number of bits of n, and the bytes that stayed the same are never read.

// one is x^0: checksums are held bit-reversed, the highest bit is the lowest power.
const one = uint32(1) << 31

// squares[k] is x^(8·2^k), which k-th bit of a number of zero bytes stands for.
var squares = squaresOfX() //nolint:gochecknoglobals // a table of constants

func squaresOfX() (t [32]uint32) {
	t[0] = one >> 8
	for k := 1; k < len(t); k++ {
		t[k] = multiply(t[k-1], t[k-1])
	}
	return t
}

// multiply answers a·b modulo the Castagnoli polynomial.
func multiply(a, b uint32) uint32 {
	var product uint32
	for ; a != 0; a <<= 1 {
		if a&one != 0 {
			product ^= b
		}
		odd := b & 1
		b >>= 1
		if odd != 0 {
			b ^= crc32.Castagnoli
		}
	}
	return product
}

// crcOfChange answers what to XOR to the checksum of a message of which some bytes change: change is old XOR new from
// the first of them on, and after bytes follow that stay as they are.
func crcOfChange(change []byte, after int) uint32 {
	// Update inverts before and after; with these two inversions it starts from 0 and answers the bare remainder.
	sum := ^crc32.Update(^uint32(0), crc32.MakeTable(crc32.Castagnoli), change)
	for k := 0; after != 0; k, after = k+1, after>>1 {
		if after&1 != 0 {
			sum = multiply(squares[k], sum)
		}
	}
	return sum
}
