// Packs files into a zip archive in the page, because pictures and a long trace exist only here.

const LOCAL_SIGNATURE = 0x04034b50;
const CENTRAL_SIGNATURE = 0x02014b50;
const END_SIGNATURE = 0x06054b50;
const VERSION = 20;
// Flag: file names are UTF-8.
const UTF8_FLAG = 0x0800;
// 1 January 1980, fixed so that the same files give the same archive.
const FIXED_DATE = 0x21;
const LOCAL_BYTES = 30;
const CENTRAL_BYTES = 46;
const END_BYTES = 22;

/** @typedef {[number, number][]} Fields sizes in bytes, and values */

/**
 * @typedef {object} ZipEntry
 * @property {Uint8Array<ArrayBuffer>} name
 * @property {Uint8Array<ArrayBuffer>} raw
 * @property {Uint8Array<ArrayBuffer>} packed
 * @property {number} method
 * @property {number} crc
 */

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c;
});

/** @param {Uint8Array} bytes */
function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC_TABLE[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
async function deflateBytes(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Pack [bytes, value] pairs of two or four bytes, little-endian.
 * @param {number} length
 * @param {Fields} fields
 */
function packRecord(length, fields) {
  const view = new DataView(new ArrayBuffer(length));
  let at = 0;
  for (const [bytes, value] of fields) {
    if (bytes === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += bytes;
  }
  return new Uint8Array(view.buffer);
}

/**
 * @param {ZipEntry} entry
 * @returns {Fields}
 */
const commonFields = ({ method, crc, packed, raw, name }) => [
  [2, VERSION],
  [2, UTF8_FLAG],
  [2, method],
  [2, 0],
  [2, FIXED_DATE],
  [4, crc],
  [4, packed.length],
  [4, raw.length],
  [2, name.length],
  [2, 0],
];

/**
 * @param {string} path
 * @param {string | Uint8Array<ArrayBuffer>} content
 * @returns {Promise<ZipEntry>}
 */
async function createEntry(path, content) {
  const raw = typeof content === "string" ? new TextEncoder().encode(content) : content;
  const small = await deflateBytes(raw);
  const method = small.length < raw.length ? 8 : 0;
  const packed = method ? small : raw;
  return { name: new TextEncoder().encode(path), raw, packed, method, crc: crc32(raw) };
}

/**
 * Create a zip archive.
 * @param {Record<string, string | Uint8Array<ArrayBuffer>>} files by path
 * @returns {Promise<Blob>}
 */
export async function createZip(files) {
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const parts = [];
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const index = [];
  let at = 0;
  for (const [path, content] of Object.entries(files)) {
    const entry = await createEntry(path, content);
    const about = commonFields(entry);
    /** @type {Fields} */
    const rest = [
      [2, 0],
      [2, 0],
      [2, 0],
      [4, 0],
      [4, at],
    ];
    index.push(
      packRecord(CENTRAL_BYTES, [[4, CENTRAL_SIGNATURE], [2, VERSION], ...about, ...rest]),
      entry.name,
    );
    parts.push(packRecord(LOCAL_BYTES, [[4, LOCAL_SIGNATURE], ...about]), entry.name, entry.packed);
    at += LOCAL_BYTES + entry.name.length + entry.packed.length;
  }
  let size = 0;
  for (const part of index) size += part.length;
  const count = Object.keys(files).length;
  /** @type {Fields} */
  const end = [
    [4, END_SIGNATURE],
    [2, 0],
    [2, 0],
    [2, count],
    [2, count],
    [4, size],
    [4, at],
    [2, 0],
  ];
  return new Blob([...parts, ...index, packRecord(END_BYTES, end)], { type: "application/zip" });
}
