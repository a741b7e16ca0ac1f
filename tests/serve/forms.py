"""Bodies of type multipart/form-data, as curl -F sends them."""


def form(*parts, boundary="----x7"):
    """The body and its Content-Type; a part is (name, name of its file or None, bytes)."""
    body = b""
    for name, file, value in parts:
        head = f'Content-Disposition: form-data; name="{name}"' + (f'; filename="{file}"\r\nContent-Type: application/octet-stream' if file is not None else "")
        body += f"--{boundary}\r\n{head}\r\n\r\n".encode() + value + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
