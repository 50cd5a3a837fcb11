// The picture input: a file, the clipboard, a photo or an example.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { formatSize } from "../shell/file_sizes.mjs";
import { MediaField } from "./media_field.mjs";

const FIELD_TEXTS = {
  title: tr("Picture"),
  hint: tr("Drop a picture here, paste one, or"),
  remove: tr("Remove the picture"),
  removed: tr("The picture is removed."),
  needed: tr("This model needs a picture: choose one, or take an example."),
  examples: tr("Or one of these:"),
};
const JPEG_QUALITY = 0.92;

// Listing the kinds of devices needs no permission, so this opens no browser prompt.
const hasCamera = async () => {
  const found = await navigator.mediaDevices?.enumerateDevices?.().catch(() => []);
  return (found ?? []).some(({ kind }) => kind === "videoinput");
};

/** The form field for a model's picture. */
export class PictureField extends MediaField {
  /** @type {MediaStream | null} */
  #stream = null;
  // Number of the latest camera request: a stream for an older one is closed at once.
  #asked = 0;

  /**
   * @param {string} id
   * @param {() => void} changed
   */
  constructor(id, changed) {
    super("image", id, FIELD_TEXTS, changed);
    this.photo = createButton(tr("Take a photo"), () => this.#openCamera(), {
      class: "dp-btn md-photo",
    });
    this.photo.hidden = true;
    this.acts.append(this.photo);
    hasCamera().then((is) => {
      this.photo.hidden = !is;
    });
    this.box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.#stream) return;
      this.stop();
      this.photo.focus();
    });
    addEventListener("pagehide", () => this.stop());
  }

  /** @param {any} example */
  exampleButton({ title, alt, src }) {
    const picture = el("img", { src, alt: alt || title, loading: "lazy", width: 56, height: 56 });
    const attrs = { class: "dp-btn md-example", "aria-pressed": "false", title };
    return createButton(picture, () => {}, attrs);
  }

  /** @param {import("../shell/visitor_media.mjs").Given} given */
  figure({ src, bytes, width, height, title, alt: told }) {
    const alt = told || title || tr("The picture that the model is given");
    const size = width && height && tr("{width} × {height} pixels", { width, height });
    const facts = [title, size, bytes && formatSize(bytes)].filter(Boolean).join(" · ");
    return el(
      "figure",
      { class: "md-figure" },
      el("img", { src, alt }),
      el("figcaption", {}, facts),
    );
  }

  async #openCamera() {
    this.begin();
    const asked = ++this.#asked;
    try {
      const video = { facingMode: "environment", width: { ideal: 1280 } };
      const stream = await navigator.mediaDevices.getUserMedia({ video, audio: false });
      if (asked !== this.#asked) return stopTracks(stream);
      this.#stream = stream;
      await this.#showPreview(stream);
    } catch (error) {
      if (asked === this.#asked)
        this.wrong(
          tr("The browser gives no camera: {reason}.", { reason: deviceErrorReason(error) }),
        );
    }
  }

  /** @param {MediaStream} stream */
  async #showPreview(stream) {
    const screen = el("video", { playsinline: true, class: "md-video" });
    screen.muted = true;
    screen.srcObject = stream;
    screen.setAttribute("aria-label", tr("What the camera sees"));
    const still = createButton(tr("Take it"), () => this.#takePhoto(screen), {
      class: "dp-btn f-go",
    });
    // Disabled until the video plays: before that there is no frame to capture.
    still.disabled = true;
    const leave = () => {
      this.stop();
      this.photo.focus();
    };
    const cancel = createButton(tr("Cancel"), leave);
    this.live.replaceChildren(screen, el("div", { class: "md-acts" }, still, cancel));
    this.box.classList.add("md-busy");
    cancel.focus();
    await screen.play();
    still.disabled = false;
    still.focus();
  }

  /** @param {HTMLVideoElement} screen */
  #takePhoto(screen) {
    const { videoWidth: width, videoHeight: height } = screen;
    const canvas = el("canvas", { width, height });
    canvas.getContext("2d")?.drawImage(screen, 0, 0, width, height);
    this.stop();
    canvas.toBlob((blob) => blob && this.take(blob), "image/jpeg", JPEG_QUALITY);
    this.photo.focus();
  }

  stop() {
    super.stop();
    this.#asked++;
    if (this.#stream) stopTracks(this.#stream);
    this.#stream = null;
    this.box.classList.remove("md-busy");
  }
}

/** @param {MediaStream} stream */
const stopTracks = (stream) => {
  for (const track of stream.getTracks()) track.stop();
};

/**
 * Return why the browser gave no camera or microphone, in a few words.
 * @param {unknown} error
 */
export function deviceErrorReason(error) {
  const name = error instanceof Error ? error.name : "";
  if (name === "NotAllowedError") return tr("it was not allowed");
  if (name === "NotFoundError") return tr("there is none");
  return tr("it is in use or does not answer");
}
