//! Compressed row files (zstd, RFC 8878).

use crate::BundleError;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

/// Level of compression: rows of this program shrink to about a tenth.
const LEVEL: i32 = 9;

/// Starts a compressed stream into a file, with a checksum of what it holds.
pub(crate) fn encoder<W: Write>(out: W) -> io::Result<zstd::Encoder<'static, W>> {
    let mut encoder = zstd::Encoder::new(out, LEVEL)?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}

/// Compresses a file. Equal files give equal bytes, by the same version of this program.
///
/// # Errors
/// When a file can't be read or written; `to` must not exist.
pub fn compress(from: &Path, to: &Path) -> Result<(), BundleError> {
    let mut source = File::open(from).map_err(BundleError::io(from))?;
    let compressed = File::create_new(to).and_then(encoder).and_then(|mut out| {
        io::copy(&mut source, &mut out)?;
        out.finish()?.sync_all()
    });
    compressed.map_err(BundleError::io(to))
}

/// Unpacks a compressed file that holds exactly `bytes` bytes, no more than which are ever written.
///
/// # Errors
/// When it is broken, holds more or less, or is followed by anything; `to` must not exist.
pub fn decompress(from: &Path, to: &Path, bytes: u64) -> Result<(), BundleError> {
    let source = File::open(from).map_err(BundleError::io(from))?;
    let broken = |error: io::Error| BundleError::form(from, format!("can't be unpacked: {error}"));
    let mut decoder = zstd::Decoder::new(source).map_err(broken)?.single_frame();
    let mut out = File::create_new(to).map_err(BundleError::io(to))?;
    let copied = io::copy(&mut (&mut decoder).take(bytes), &mut out).map_err(broken)?;
    if copied != bytes {
        return Err(BundleError::form(from, format!("unpacks to {copied} bytes, expected {bytes}")));
    }
    end_of_frame(decoder).map_err(|what| BundleError::form(from, what))
}

/// Nothing more is in the frame, and nothing follows it.
pub(crate) fn end_of_frame(mut decoder: zstd::Decoder<'_, BufReader<File>>) -> Result<(), String> {
    let mut byte = [0];
    match decoder.read(&mut byte) {
        Err(error) => return Err(format!("can't be unpacked: {error}")),
        Ok(0) => {}
        Ok(_) => return Err("unpacks to more bytes than expected".to_owned()),
    }
    match decoder.finish().read(&mut byte) {
        Ok(0) => Ok(()),
        Ok(_) => Err("has bytes after its end".to_owned()),
        Err(error) => Err(format!("can't be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn rows_come_back_and_anything_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("rows"), "{\"a\":1}\n".repeat(1000)).unwrap();
        compress(&at("rows"), &at("one.zst")).unwrap();
        compress(&at("rows"), &at("two.zst")).unwrap();
        let packed = fs::read(at("one.zst")).unwrap();
        assert_eq!(packed, fs::read(at("two.zst")).unwrap());
        decompress(&at("one.zst"), &at("back"), 8000).unwrap();
        assert_eq!(fs::read(at("back")).unwrap(), fs::read(at("rows")).unwrap());
        let refused = |bytes: &[u8], expected: u64, words: &str| {
            fs::write(at("bad.zst"), bytes).unwrap();
            let _ = fs::remove_file(at("bad"));
            let error = decompress(&at("bad.zst"), &at("bad"), expected).unwrap_err().to_string();
            assert!(error.contains(words), "{error} does not say {words}");
            assert!(fs::metadata(at("bad")).unwrap().len() <= expected);
        };
        refused(&packed, 7999, "unpacks to more bytes");
        refused(&packed, 8001, "unpacks to 8000 bytes, expected 8001");
        refused(&[&packed[..], b"x"].concat(), 8000, "has bytes after its end");
        refused(&packed[..packed.len() - 1], 8000, "can't be unpacked");
        let mut flipped = packed.clone();
        *flipped.last_mut().unwrap() ^= 1;
        refused(&flipped, 8000, "can't be unpacked");
    }

    #[test]
    fn a_bomb_is_cut_off_at_the_size_that_it_was_said_to_have() {
        let folder = tempfile::tempdir().unwrap();
        let (bomb, out) = (folder.path().join("bomb"), folder.path().join("out"));
        let mut encoder = encoder(File::create(&bomb).unwrap()).unwrap();
        (0..64).for_each(|_| encoder.write_all(&vec![0; 1 << 20]).unwrap());
        encoder.finish().unwrap();
        assert!(fs::metadata(&bomb).unwrap().len() < 10_000);
        let error = decompress(&bomb, &out, 1000).unwrap_err().to_string();
        assert!(error.contains("unpacks to more bytes"), "{error}");
        assert_eq!(fs::metadata(&out).unwrap().len(), 1000);
    }
}
